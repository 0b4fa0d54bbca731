"""Ends single calls after the default time limit, which no settings file has stated or lifted."""

import asyncio
from weakref import WeakSet

from ...errors import DeadlineExceeded
from ...settings import ModelSettings, Settings
from ..call import Call, Operation
from .deadline import says_limit
from .live import Live

LOOKS = 60
"""Looks at the calls in the time of the limit. A call ends at most one sixtieth of it late."""


class LongCalls:
    """Looks at all calls in progress now and then. A timer for each call would cost a tenth of a small request."""

    def __init__(self, settings: Settings) -> None:
        self._limit = 0.0 if says_limit(settings) else settings.request_timeout or 0.0
        self._watched: WeakSet[Live] = WeakSet()
        self._timer: asyncio.TimerHandle | None = None

    def limits(self, model: ModelSettings) -> bool:
        return bool(self._limit) and not says_limit(model)

    def watch(self, live: Live, model: ModelSettings) -> None:
        """Look at the calls of a model, if the default limits them."""
        if self.limits(model):
            self._watched.add(live)

    def begin(self) -> None:
        """Look until there is nothing to look at."""
        if self._watched and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._limit / LOOKS, self._look)

    def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        for live in self._watched:
            for call in list(live.calls):
                if isinstance(call, Call) and _is_limited(call):
                    call.seen = since = getattr(call, "seen", now)
                    if now - since >= self._limit:
                        call.end(DeadlineExceeded())
        self._timer = None
        self.begin()


def _is_limited(call: Call) -> bool:
    """Whether it is an inference with one response for a client that waits: a stream ends when its reader stalls."""
    return call.operation is Operation.INFER and call.dialect != "kafka"
