"""Measures the executions of a model that shares them: a batch is one, and a cached response is none.

Of other models each call that ends well is an execution, from its turn on: the metrics stage knows that already.
One more stage around each of them would cost about 1 µs.
"""

from time import perf_counter

from ...telemetry.compute import ComputeMeters
from ..call import Call
from ..handler import Handler
from ..reply import Reply, Watcher
from .base import Pipeline, Shared


class Compute:
    """The innermost stage. Executions that fail are not counted.

    With `rows`, an execution has as many as the first dimension of its first input says, else one.
    """

    def __init__(self, inner: Handler, meters: ComputeMeters, rows: bool) -> None:
        self._inner = inner
        self._meters = meters
        self._rows = rows

    async def __call__(self, call: Call) -> Reply:
        began = perf_counter()
        rows = _rows(call) if self._rows else 1
        reply = await self._inner(call)
        if reply.single:
            self._meters.executed(rows, began)
            return reply
        return reply.watch(StreamExecution(self._meters, rows, began))


class StreamExecution(Watcher):
    """Counts a stream as one execution when it has ended well."""

    __slots__ = ("_began", "_meters", "_rows")

    def __init__(self, meters: ComputeMeters, rows: int, began: float) -> None:
        self._meters = meters
        self._rows = rows
        self._began = began

    def end(self, error: BaseException | None) -> None:
        if error is None:
            self._meters.executed(self._rows, self._began)


def _rows(call: Call) -> int:
    inputs = call.request.inputs
    return inputs[0].shape[0] if inputs and inputs[0].shape else 1


def compute(inner: Handler, model: Pipeline, shared: Shared) -> Compute | None:
    """The stage where executions differ from calls, and once they have been counted apart."""
    settings, meters = model.settings, model.meters
    batches = settings.max_batch_size > 1
    if not (batches or settings.cache_enabled or meters.compute is not None):
        return None
    return Compute(inner, meters.computing(), rows=batches)
