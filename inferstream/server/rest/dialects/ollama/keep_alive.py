"""`keep_alive` of a request: how long its model stays in memory after the call."""

import re

from inferstream.ext.access import Authority
from inferstream.ext.calls import Action, Admission

from .....text.fields import Fields

UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

LONGEST = 32
"""Characters of a duration."""

_PARTS = re.compile(r"([0-9]+)(\.[0-9]+)?(ms|s|m|h|$)")
"""Parts of a duration. A unit, or the end of the text, ends each."""


class KeepAlive:
    """How long a request wants its model to stay. Raises InvalidRequest."""

    def __init__(self, access: Authority, admission: Admission, fields: Fields) -> None:
        self._access = access
        self.admission = admission
        self._stated = fields.get("keep_alive") is not None
        self._seconds = kept(fields) if self._stated else None
        self.leaves = self._stated and self._seconds == 0
        """Whether the model is to leave memory at once."""

    async def apply(self, load: bool = False) -> None:
        """Keep a model that may leave memory so long, and `load` it unless it is to leave at once.

        That counts as a call if it loads or changes anything. Who may not make models leave has no say in how long
        this one stays; nothing is refused, because Ollama's clients say it with each call. Raises LimitExceeded,
        OutOfMemory.
        """
        resident, caller = self.admission.pipeline.execution.resident, self.admission.caller
        changes = self._stated and resident is not None and resident.keep != self._seconds
        changes = changes and self._access.may_evict(caller)

        async def act() -> None:
            if resident is not None and changes:
                resident.keep = self._seconds
            if resident is not None and load and not self.leaves:
                await resident.enter()
                resident.left()

        if load or changes:
            await self._access.run(Action.REPOSITORY_WRITE, caller, self.admission.model, act)


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
