"""The use of keys by day, in a file that outlives the server."""

import json
import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..errors import InvalidSettings
from .file import replace
from .words import DAY_SECONDS

logger = logging.getLogger("inferstream.keys")

VERSION = 1
"""The version of the file that is written, and the only one that is read."""

DAYS = 62
"""Days with use that the file keeps."""


class DayOfKey(msgspec.Struct, forbid_unknown_fields=True):
    """What a key has used on a day."""

    principal: str
    requests: int = 0
    refused: int = 0
    tokens: int = 0
    bytes: int = 0


class Used(NamedTuple):
    """The use of a key since the last call of `take_used`."""

    requests: int
    refused: int
    tokens: int
    bytes: int


class _Contents(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    days: dict[str, dict[str, DayOfKey]]


class UsageFile:
    """Adds to the days of a file. One process of a server has it.

    Raises InvalidSettings for a file that is broken at the start, which is left as it is.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._days = read_usage(self._path)
        self._changed = False
        self._fault = ""

    def today(self, wall: float) -> Iterator[tuple[str, str, int]]:
        """Keys, the principal of each, and its tokens today."""
        for key, each in self._days.get(_date(wall), {}).items():
            yield key, each.principal, each.tokens

    def add(self, key: str, principal: str, used: Used, wall: float) -> None:
        """Add the use of a key.

        A clock that jumps back over midnight begins no day again. Days after tomorrow come from a clock that was ahead.
        """
        tomorrow = _date(wall + DAY_SECONDS)
        today = max((day for day in self._days if day <= tomorrow), default="")
        today = max(_date(wall), today)
        if today not in self._days:
            self._days[today] = {}
            # By their number: a clock that is a year ahead must not make all of them old.
            self._days = {day: self._days[day] for day in sorted(self._days)[-DAYS:]}
        row = self._days[today].setdefault(key, DayOfKey(principal))
        row.principal = principal
        row.requests += used.requests
        row.refused += used.refused
        row.tokens += used.tokens
        row.bytes += used.bytes
        self._changed = True

    def save(self) -> None:
        """Replace the file if anything has changed. A disk that is full stops nothing, and is logged once."""
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
                logger.error("%s: the use of keys is not saved: %s", self._path, fault)
        else:
            if self._fault:
                self._fault = ""
                logger.warning("%s: the use of keys is saved again", self._path)


def read_usage(path: Path) -> dict[str, dict[str, DayOfKey]]:
    """The days of a usage file, and what each key has used on them; none without a file. Raises InvalidSettings."""
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


def _date(wall: float) -> str:
    return datetime.fromtimestamp(wall, UTC).date().isoformat()
