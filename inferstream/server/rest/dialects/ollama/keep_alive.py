"""`keep_alive` of a request: how long its model stays in memory after the call."""

import re

from .....dataplane.residency import Resident
from .....text.fields import Fields

UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

LONGEST = 32
"""Characters of a duration."""

_PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|$)")
_DURATION = re.compile(r"\d+(?:\.\d+)?|(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
"""A unit ends each part, so that there is one way to read it."""


def keep(resident: Resident | None, fields: Fields) -> None:
    """Keep a model that may leave memory as long as a request says. Raises InvalidRequest."""
    if resident is not None and fields.get("keep_alive") is not None:
        resident.keep = kept(fields)


def kept(fields: Fields) -> float | None:
    """Seconds; None for ever. Raises InvalidRequest."""
    asked = fields.get("keep_alive")
    text = str(asked).removeprefix("-")
    if isinstance(asked, bool) or len(text) > LONGEST or not _DURATION.fullmatch(text):
        raise fields.wrong("keep_alive", f'must be seconds or a duration as in "1h30m", got {asked!r}')
    if str(asked).startswith("-"):
        return None
    return sum(float(number) * UNITS[unit] for number, unit in _PARTS.findall(text))
