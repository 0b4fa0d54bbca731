"""Functions around every call of an app's models."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ..types import InferenceRequest

Reply = Any
"""What `call_next` returns, to be returned unchanged."""


class CallEnd(NamedTuple):
    """How a call ended, its stream included."""

    status: str
    """`success`, `cancelled` if the client left, or the code of the error, such as `not_found`."""
    seconds: float
    items: int
    """Responses that the client was sent."""


class CallInfo(Protocol):
    """What a middleware sees of a call, after its admission and before its model."""

    principal: str | None
    """The client, where the server or a middleware knows it. Middleware may set it."""

    @property
    def model(self) -> str:
        """Name of the model."""

    @property
    def version(self) -> str | None:
        """The version that the client asked for."""

    @property
    def operation(self) -> str:
        """`infer` for one response, `stream` for all that the model makes."""

    @property
    def face(self) -> str:
        """The dialect of the call, such as `v2`, `openai`, `grpc` or `websocket`; empty for calls in process."""

    @property
    def request(self) -> InferenceRequest:
        """The first request, with its tensors, not yet checked."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the request, or metadata of its RPC, by lower-case name."""

    def on_end(self, callback: Callable[[CallEnd], None]) -> None:
        """Call `callback` once, after the last response or the failure of the call. It must not wait."""


Middleware = Callable[[Any, Callable[[Any], Awaitable[Reply]]], Awaitable[Reply]]
"""`async def middleware(call: CallInfo, call_next)`: returns `await call_next(call)`, or raises."""
