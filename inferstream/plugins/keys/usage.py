"""The usage file, which keeps the daily usage of each key across restarts."""

import json
import logging
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from inferstream.errors import InvalidSettings

from .file import replace
from .words import DAY_SECONDS

logger = logging.getLogger("inferstream.keys")

VERSION = 1
"""The only supported version of the file."""

DAYS = 62
"""Maximum number of days in the file."""


class DayOfKey(msgspec.Struct, forbid_unknown_fields=True):
    """The usage of a key on one day."""

    principal: str
    requests: int = 0
    refused: int = 0
    tokens: int = 0
    bytes: int = 0


class Used(NamedTuple):
    """The usage of a key since the last `take_usage`."""

    requests: int
    refused: int
    tokens: int
    bytes: int


class _Contents(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    days: dict[str, dict[str, DayOfKey]]


class UsageFile:
    """The daily totals of a usage file. One process of a server owns it.

    Raises InvalidSettings if the file is invalid, and leaves it unchanged.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._days = read_usage(self._path)
        self._changed = False
        self._fault = ""

    def today(self, wall: float) -> Iterator[tuple[str, str, int]]:
        """Yield each key with its principal and its tokens of today."""
        for key, each in self._days.get(_date(wall), {}).items():
            yield key, each.principal, each.tokens

    def add(self, key: str, principal: str, used: Used, wall: float) -> None:
        """Add the usage of a key.

        If the clock jumps back past midnight, the current day continues. Days after tomorrow are ignored,
        because they are from a clock that was ahead.
        """
        tomorrow = _date(wall + DAY_SECONDS)
        today = max((day for day in self._days if day <= tomorrow), default="")
        today = max(_date(wall), today)
        if today not in self._days:
            self._days[today] = {}
            # Limited by number, not by age: a clock that is a year ahead must not expire all days.
            self._days = {day: self._days[day] for day in sorted(self._days)[-DAYS:]}
        row = self._days[today].setdefault(key, DayOfKey(principal))
        row.principal = principal
        row.requests += used.requests
        row.refused += used.refused
        row.tokens += used.tokens
        row.bytes += used.bytes
        self._changed = True

    def save(self) -> None:
        """Replace the file if anything has changed.

        Write errors are logged once and retried at the next save.
        """
        if not self._changed:
            return
        contents = {"version": VERSION, "days": msgspec.to_builtins(self._days)}
        self._changed = False
        try:
            replace(self._path, json.dumps(contents, indent=1).encode())
        except OSError as error:
            self._changed = True
            fault = os.strerror(error.errno or 0)
            if fault != self._fault:
                self._fault = fault
                logger.error("%s: saving key usage failed: %s", self._path, fault)
        else:
            if self._fault:
                self._fault = ""
                logger.warning("%s: saving key usage works again", self._path)


def read_usage(path: Path) -> dict[str, dict[str, DayOfKey]]:
    """Return the usage of each key by day. Empty if the file is missing. Raises InvalidSettings."""
    try:
        contents = msgspec.json.decode(path.read_bytes(), type=_Contents)
        for day in contents.days:
            datetime.fromisoformat(day)
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidSettings(f"{path}: {error}") from None
    except OSError as error:
        raise InvalidSettings(f"{path}: {error.strerror}") from None
    if contents.version != VERSION:
        raise InvalidSettings(f'{path}: "version" must be {VERSION}')
    return contents.days


def read_today(path: Path) -> dict[str, DayOfKey]:
    """Return the usage of each key today. It may be some seconds old. Raises InvalidSettings."""
    return read_usage(path).get(_date(time.time()), {})


def _date(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).date().isoformat()
