"""`keep_alive` of a request: how long its model stays in memory after the call."""

import re

from inferstream.ext.access import Authority
from inferstream.ext.calls import Action, Admission

from ..fields import Fields

UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

MAX_DURATION_LENGTH = 32
"""Maximum length of a duration in characters."""

_PARTS = re.compile(r"([0-9]+)(\.[0-9]+)?(ms|s|m|h|$)")
"""Parts of a duration, each a number with a unit or, at the end, without one."""


class KeepAlive:
    """The requested `keep_alive` of a model. Raises InvalidRequest."""

    def __init__(self, access: Authority, admission: Admission, fields: Fields) -> None:
        self._access = access
        self.admission = admission
        self._stated = fields.get("keep_alive") is not None
        self._seconds = parse_keep_alive(fields) if self._stated else None
        self.leaves = self._stated and self._seconds == 0
        """Whether to unload the model immediately."""

    async def apply(self, load: bool = False) -> None:
        """Set how long the model stays in memory. If `load` is true, load it unless its time is 0.

        Loading the model or changing the time counts towards the limits of the caller. The time is ignored if
        the caller may not evict models or the model cannot be unloaded. This is not an error, because Ollama
        clients send `keep_alive` with every call. Raises LimitExceeded or OutOfMemory.
        """
        resident, caller = self.admission.resident, self.admission.caller
        changes = self._stated and resident is not None and resident.keep != self._seconds
        changes = changes and self._access.may_evict(caller)

        async def act() -> None:
            if resident is not None and changes:
                resident.keep = self._seconds
            if resident is not None and load and not self.leaves:
                await resident.enter()
                resident.leave()

        if load or changes:
            await self._access.run(Action.REPOSITORY_WRITE, caller, self.admission.model, act)


def parse_keep_alive(fields: Fields) -> float | None:
    """Return the time in seconds, or None to keep the model loaded. Raises InvalidRequest."""
    asked = fields.get("keep_alive")
    text = str(asked).removeprefix("-")
    parts = [] if isinstance(asked, bool) or len(text) > MAX_DURATION_LENGTH else _PARTS.findall(text)
    plain = len(parts) > 1 and not parts[-1][2]  # a number without a unit must be the only part
    if not parts or plain or "".join(map("".join, parts)) != text:
        raise fields.wrong("keep_alive", f'must be seconds or a duration as in "1h30m", got {asked!r}')
    if str(asked).startswith("-"):
        return None
    return sum(float(number + fraction) * UNITS[unit] for number, fraction, unit in parts)
