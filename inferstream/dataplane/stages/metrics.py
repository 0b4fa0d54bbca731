"""Counts every call and its end, refusals included."""

from time import perf_counter

from ...errors import Abandoned, InferstreamError
from ...telemetry.metrics import ModelMeters
from ...types import InferenceResponse
from ..call import Call
from ..handler import Handler
from ..reply import Reply, Watcher
from .base import Pipeline, Shared


class Metrics:
    """The outermost stage, which sees what the client sees."""

    def __init__(self, inner: Handler, meters: ModelMeters) -> None:
        self._inner = inner
        self._meters = meters

    async def __call__(self, call: Call) -> Reply:
        meters = self._meters
        started = meters.last = perf_counter()
        meters.in_flight += 1
        try:
            reply = await self._inner(call)
        except BaseException as error:  # a cancelled call has ended too
            meters.in_flight -= 1
            meters.ended(perf_counter() - started, kind_of(error))
            raise
        if reply.single:
            meters.in_flight -= 1
            meters.ended(perf_counter() - started, "success", call.waited)
            return reply
        return reply.watch(MeteredStream(meters, started, call.waited))


class MeteredStream(Watcher):
    """Counts the responses of one stream, and the seconds between them."""

    __slots__ = ("_last", "_meters", "_started", "_streams", "_waited")

    def __init__(self, meters: ModelMeters, started: float, waited: float) -> None:
        self._meters = meters
        self._waited = waited
        self._streams = meters.streams
        self._started = started
        self._last = 0.0

    def item(self, response: InferenceResponse) -> None:
        now = perf_counter()
        streams = self._streams
        streams.items += 1
        if self._last:
            streams.gaps.observe(now - self._last)
        else:
            streams.first.observe(now - self._started)
        self._last = now

    def end(self, error: BaseException | None) -> None:
        self._meters.in_flight -= 1
        self._meters.ended(perf_counter() - self._started, kind_of(error), self._waited)


def kind_of(error: BaseException | None) -> str:
    """The end of a call in a word: `success`, or the code of its error."""
    if error is None:
        return "success"
    if isinstance(error, InferstreamError) and not isinstance(error, Abandoned):
        return error.code.value
    return "cancelled" if isinstance(error, Abandoned) or not isinstance(error, Exception) else "internal"


def metrics(inner: Handler, model: Pipeline, shared: Shared) -> Handler:
    return Metrics(inner, model.meters)
