"""A model in a worker, and what all calls in a worker have in common."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ...telemetry.queues import QueueMeters
from ...telemetry.steps import StepMeters
from ..call import Call
from ..cloudevents import CloudEvents
from ..execution.local import Local
from ..handler import Handler
from ..reply import Reply
from ..stages.limits import Limits
from .running_call import RunningCall

if TYPE_CHECKING:
    from ...telemetry.tracing import Tracer


class Instance:
    """One loaded model, with the limit of what it runs at once in this process, whoever calls it."""

    def __init__(self, local: Local, tracing: "Tracer | None") -> None:
        self.local = local
        self.ready = True
        self.queue, self.steps = QueueMeters(), StepMeters()
        local.meter(self.queue, self.steps)
        aging = local.settings.priority_aging
        self.handler: Handler = Limits(Started(local), local.slots, 2**31, aging, self.queue)
        if tracing is not None:
            self.handler = _in_span(self.handler, tracing)


class Started:
    """Notes where the caller can read it, even after this process has died, that a call's model code runs."""

    def __init__(self, inner: Handler) -> None:
        self._inner = inner

    def __call__(self, call: Call) -> Awaitable[Reply]:
        assert isinstance(call, RunningCall)
        call.arena.flags[call.number] = 1
        return self._inner(call)


class Models:
    """What a worker has loaded, and what its calls are given."""

    def __init__(self) -> None:
        self.instances: dict[int, Instance] = {}
        self.events: CloudEvents | None = None
        self.tracing: Tracer | None = None


def _in_span(inner: Handler, tracing: "Tracer") -> Handler:
    """A handler whose calls, and what model code does in them, lie in the span that came with them."""

    def handle(call: Call) -> Awaitable[Reply]:
        if call.trace is not None:
            tracing.enter(call.trace)
        return inner(call)

    return handle
