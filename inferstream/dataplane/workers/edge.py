"""`WorkerEdge`: the hook for plug-ins around calls in worker processes."""

from collections.abc import Callable, Iterable
from typing import Any

from ...settings import Settings
from ...types import InferenceRequest
from ..call import Handler


class WorkerEdge:
    """A plug-in's hook around the calls of a worker, created with the return value of `of`.

    Subclasses override the methods they need.
    """

    mark: Callable[[InferenceRequest, str], None] | None = None
    """Called with each request and the name of its model, before the model runs."""

    current_span: Callable[[], tuple[str, str] | None] | None = None
    """Returns the trace id and span id of the running code for log lines, or None outside of spans."""

    def __init__(self, given: Any) -> None:
        """`given` is the return value of `of`, which was sent as MessagePack."""

    @classmethod
    def of(cls, settings: Settings) -> Any:
        """Return the argument for the workers' edges, or None to disable them. Runs in the server process."""

    def call(self, handler: Handler) -> Handler:
        """Wrap the handler of a model's calls."""
        return handler

    def route(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Called before a custom route of a model, in the same task."""

    async def stop(self) -> None:
        """Called after all models have been unloaded."""
