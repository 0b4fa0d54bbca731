"""A client of BlazeRPC's service, on this server or on BlazeRPC's own."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from grpclib.exceptions import GRPCError  # that of the library if it is installed, else ours

from inferstream import AsyncClient
from inferstream.errors import CallFailed, ConnectionFailed, ModelError

from .errors import InferenceError, ModelNotFoundError, ValidationError
from .grpclib import Status, status_named
from .registry import ModelRegistry


class BlazeClient:
    """Calls models with Python values. `registry` is that of the server's app, or one of the same functions.

    Without a registry it reads the types from the server's metadata, which BlazeRPC's own server has not.
    Calls raise TypeError and ValueError for wrong arguments, ConnectionError without a connection, and else a
    GRPCError, which is also a ValidationError, a ModelNotFoundError or an InferenceError.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 50051, registry: ModelRegistry | None = None
    ) -> None:
        host = f"[{host}]" if ":" in host else host
        self._url = f"grpc://{host}:{port}"
        self._registry = registry
        self._client: AsyncClient | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "BlazeClient":
        return self

    async def __aexit__(self, *exit: object) -> None:
        self.close()
        await asyncio.gather(*self._closing)

    def close(self) -> None:
        """Close the channel. Another call opens it again."""
        client, self._client = self._client, None
        if client is None:
            return
        with suppress(RuntimeError):  # without a running loop, the channel ends with the client
            task = asyncio.get_running_loop().create_task(client.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def predict(self, model_name: str, **kwargs: Any) -> Any:
        """The result of a model."""
        try:
            return await self._opened().predict(model_name, kwargs)
        except CallFailed as error:
            raise _failure(error, model_name) from None

    async def stream(self, model_name: str, **kwargs: Any) -> AsyncIterator[Any]:
        """Each item of a stream, when it arrives. Leaving the loop cancels the call on the server."""
        try:
            async with aclosing(self._opened().stream(model_name, kwargs)) as items:
                async for item in items:
                    yield item
        except CallFailed as error:
            raise _failure(error, model_name) from None

    def _opened(self) -> AsyncClient:
        if self._client is None:
            if self._registry is None:
                self._client = AsyncClient(self._url, timeout=math.inf)
            else:
                app = self._registry.app
                self._client = AsyncClient.over_typed_rpcs(self._url, app, timeout=math.inf)
        return self._client


class Answered:
    """What all failures share. It is the first base, so that no constructor of the others runs."""

    def __init__(self, error: CallFailed, model: str) -> None:
        made: Any = self
        made.status = status_named(
            error.status_name if error.status_name in Status.__members__ else "UNKNOWN"
        )
        ModelError.__init__(made, error.message, error.status or 500)
        made.details = made.field = None
        made.name = made.model_name = model
        made.version = ""


class InvalidCall(Answered, GRPCError, ValidationError):  # type: ignore[misc]  # a class that may be a library's
    """The server refused an argument."""


class UnknownModel(Answered, GRPCError, ModelNotFoundError):  # type: ignore[misc]
    """The server has no such model."""


class FailedCall(Answered, GRPCError, InferenceError):  # type: ignore[misc]
    """The call failed otherwise."""


KINDS: dict[int, Any] = {400: InvalidCall, 404: UnknownModel, 501: UnknownModel}


def _failure(error: CallFailed, model: str) -> Exception:
    if isinstance(error, ConnectionFailed) and error.unreachable:
        return error
    failure: Exception = KINDS.get(error.status or 500, FailedCall)(error, model)
    return failure
