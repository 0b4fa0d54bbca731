"""One log line for each call."""

import logging
from time import perf_counter

from ...types import InferenceResponse
from ..call import Call
from ..handler import Handler
from ..reply import Reply, Watcher
from .base import Pipeline, Shared
from .metrics import kind_of

logger = logging.getLogger("inferstream.access")

LINE = "%s %s %s%s%s: %s, %.1f ms, %d %s%s"
"""Dialect, operation, model, its version, status, time, responses, and the client if it is known."""


class AccessLog:
    """Sees what the client sees, refusals included."""

    def __init__(self, inner: Handler) -> None:
        self._inner = inner

    async def __call__(self, call: Call) -> Reply:
        began = perf_counter()
        try:
            reply = await self._inner(call)
        except BaseException as error:  # a cancelled call has ended too
            log(call, began, 0, error)
            raise
        if reply.single:
            log(call, began, 1, None)
            return reply
        return reply.watch(LoggedStream(call, began))


class LoggedStream(Watcher):
    """Logs a stream at its end."""

    __slots__ = ("_began", "_call", "_items")

    def __init__(self, call: Call, began: float) -> None:
        self._call = call
        self._began = began
        self._items = 0

    def item(self, response: InferenceResponse) -> None:
        self._items += 1

    def end(self, error: BaseException | None) -> None:
        log(self._call, self._began, self._items, error)


def log(call: Call, began: float, items: int, error: BaseException | None) -> None:
    """Log a call that has ended now."""
    logger.info(
        LINE,
        call.face or "process",
        call.operation.value,
        call.model,
        ":" if call.version else "",
        call.version or "",
        kind_of(error),
        (perf_counter() - began) * 1000,
        items,
        "item" if items == 1 else "items",
        f", {call.principal}" if call.principal else "",
    )


def access_log(inner: Handler, model: Pipeline, shared: Shared) -> Handler | None:
    """Off unless the settings ask for it."""
    if not shared.settings.access_log:
        return None
    model.gate = None  # refused calls have a line too
    return AccessLog(inner)
