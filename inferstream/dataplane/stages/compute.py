"""Measures executions where they differ from calls: a batch is one execution, a cached response none.

For other models each successful call is one execution, from its turn on, and the metrics stage counts it.
Another stage around each of them would cost about 1 µs.
"""

from dataclasses import replace
from time import perf_counter

from ...telemetry.compute import ComputeMeters
from ..call import Call
from ..handler import Handler
from ..reply import AtEnd, Reply
from .base import Pipeline, Shared


class Compute:
    """The innermost stage. Omits failed executions. With `rows`, the first input's first dimension gives the rows."""

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

        def ended(error: BaseException | None) -> None:
            if error is None:
                self._meters.executed(rows, began)

        return reply.watch(AtEnd(ended))


def _rows(call: Call) -> int:
    inputs = call.request.inputs
    return inputs[0].shape[0] if inputs and inputs[0].shape else 1


def compute(model: Pipeline, shared: Shared) -> Pipeline:
    """On where executions differ from calls, and where they have been counted apart before."""
    settings, meters = model.settings, model.meters
    batches = settings.max_batch_size > 1
    if not (batches or settings.cache_enabled or meters.compute is not None):
        return model
    return replace(model, handler=Compute(model.handler, meters.computing(), rows=batches))
