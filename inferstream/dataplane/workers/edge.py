"""The edge of a worker: what a plug-in does with the calls that come from the processes with ports."""

from collections.abc import Callable, Iterable
from typing import Any

from ...settings import Settings
from ...types import InferenceRequest
from ..call import Handler


class WorkerEdge:
    """Is made once for each worker with what `of` has returned. A subclass overrides what it needs."""

    mark: Callable[[InferenceRequest, str], None] | None = None
    """Called with each request, and its model, before the model gets it."""

    current_span: Callable[[], tuple[str, str] | None] | None = None
    """The trace id and the span id of the code that is running, for log lines; it returns None outside of spans."""

    def __init__(self, given: Any) -> None:
        """`given` was sent as MessagePack."""

    @classmethod
    def of(cls, settings: Settings) -> Any:
        """What each worker's edge gets; None if the settings turn it off. Runs in the server's process."""

    def call(self, handler: Handler) -> Handler:
        """Wrap what runs the calls of a model."""
        return handler

    def route(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Called before a custom route of a model, in its task."""

    async def stop(self) -> None:
        """Called when the models have been unloaded."""
