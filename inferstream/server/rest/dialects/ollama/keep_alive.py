"""`keep_alive` of a request: how long its model stays in memory after the call."""

import re

from .....dataplane.residency import Resident
from .....text.fields import Fields

UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

LONGEST = 32
"""Characters of a duration."""

_PARTS = re.compile(r"([0-9]+)(\.[0-9]+)?(ms|s|m|h|$)")
"""Parts of a duration. A unit, or the end of the text, ends each."""


def keep(resident: Resident | None, fields: Fields) -> None:
    """Keep a model that may leave memory as long as a request says. Raises InvalidRequest."""
    if resident is not None and fields.get("keep_alive") is not None:
        resident.keep = kept(fields)


def kept(fields: Fields) -> float | None:
    """Seconds; None for ever. Raises InvalidRequest."""
    asked = fields.get("keep_alive")
    text = str(asked).removeprefix("-")
    parts = [] if isinstance(asked, bool) or len(text) > LONGEST else _PARTS.findall(text)
    plain = len(parts) > 1 and not parts[-1][2]  # a number without a unit stands alone
    if not parts or plain or "".join(map("".join, parts)) != text:
        raise fields.wrong("keep_alive", f'must be seconds or a duration as in "1h30m", got {asked!r}')
    if str(asked).startswith("-"):
        return None
    return sum(float(number + fraction) * UNITS[unit] for number, fraction, unit in parts)
