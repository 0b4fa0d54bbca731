"""Middleware around every call of an app's models."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ..types import InferenceRequest

Reply = Any
"""The value that `call_next` returns. Return it unchanged."""


class CallEnd(NamedTuple):
    """The outcome of a call, including its stream."""

    status: str
    """`success`, `cancelled` if the client disconnected, or an error code such as `not_found`."""
    seconds: float
    items: int
    """The number of responses sent to the client."""


class CallInfo(Protocol):
    """A call as middleware sees it, after admission and before the model runs."""

    principal: str | None
    """The client, if the server or middleware has identified it. Middleware may set it."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def version(self) -> str | None:
        """The version that the client requested."""

    @property
    def operation(self) -> str:
        """`infer` for one response, `stream` for all responses of the model."""

    @property
    def face(self) -> str:
        """The protocol of the call, such as `v2`, `openai`, `grpc` or `websocket`.

        Empty for in-process calls.
        """

    @property
    def request(self) -> InferenceRequest:
        """The first request with its tensors, before validation."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the request, or metadata of the RPC, by lower-case name."""

    def on_end(self, callback: Callable[[CallEnd], None]) -> None:
        """Call `callback` once, after the last response or after a failure. It must not block."""


Middleware = Callable[[Any, Callable[[Any], Awaitable[Reply]]], Awaitable[Reply]]
"""`async def middleware(call: CallInfo, call_next)`: returns `await call_next(call)`, or raises."""
