"""Functions around every call of an app's models."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from ..errors import ModelError
from ..types import InferenceRequest

Reply = Any
"""What `call_next` returns, to be returned unchanged."""


class CallInfo(Protocol):
    """What a middleware sees of a call, after its admission and before its model."""

    @property
    def model(self) -> str:
        """Name of the model."""

    @property
    def version(self) -> str | None:
        """The version that the client asked for."""

    @property
    def request(self) -> InferenceRequest:
        """The first request, with its tensors."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the request, or metadata of its RPC, by lower-case name."""

    @property
    def principal(self) -> str | None:
        """The client, where the server knows it."""


Middleware = Callable[[Any, Callable[[Any], Awaitable[Reply]]], Awaitable[Reply]]
"""`async def middleware(call: CallInfo, call_next)`: returns `await call_next(call)`, or raises."""


class Refused(ModelError):
    """The error of a middleware that refuses a call: a message and an HTTP status, 403 by default."""

    def __init__(self, message: str, status: int = 403) -> None:
        super().__init__(message, status)
