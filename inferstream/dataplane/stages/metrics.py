"""Counts every call and how it ended, refusals included."""

from time import perf_counter

from ...errors import Abandoned, InferstreamError
from ...telemetry.metrics import ModelMeters
from ...telemetry.streams import StreamPace
from ..call import Call
from ..handler import Handler
from ..reply import Reply


class Metrics:
    """The outermost stage: what it sees is what the client sees."""

    def __init__(self, inner: Handler, meters: ModelMeters) -> None:
        self._inner = inner
        self._meters = meters

    async def __call__(self, call: Call) -> Reply:
        meters = self._meters
        started = meters.last = perf_counter()
        meters.in_flight += 1
        try:
            reply = await self._inner(call)
        except BaseException as error:
            meters.in_flight -= 1
            meters.ended(perf_counter() - started, kind_of(error))
            raise
        if reply.single:
            meters.in_flight -= 1
            meters.ended(perf_counter() - started, "success", call.waited)
            return reply
        return _watch_stream(reply, meters, started, call.waited)


def _watch_stream(reply: Reply, meters: ModelMeters, started: float, waited: float) -> Reply:
    if reply.first is not None:
        reply.count(StreamPace(meters.streams, started))

    def end(error: BaseException | None) -> None:
        meters.in_flight -= 1
        meters.ended(perf_counter() - started, kind_of(error), waited)

    return reply.watch(end)


def kind_of(error: BaseException | None) -> str:
    """How a call ended, in a word: `success`, or the code of its error."""
    if error is None:
        return "success"
    if isinstance(error, InferstreamError) and not isinstance(error, Abandoned):
        return error.code.value
    return "cancelled" if isinstance(error, Abandoned) or not isinstance(error, Exception) else "internal"
