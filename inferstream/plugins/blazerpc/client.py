"""A client for the BlazeRPC service, on inferstream or on a BlazeRPC server."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

from grpclib.exceptions import GRPCError  # from the installed library, or the replacement

from inferstream import AsyncClient
from inferstream.errors import CallFailed, ConnectionFailed, ModelError

from .errors import InferenceError, ModelNotFoundError, ValidationError
from .grpclib import Status, find_status
from .registry import ModelRegistry


class BlazeClient:
    """Calls models with Python values.

    `registry` is the registry of the server's app, or has the same functions.

    Without a registry, types are read from the server's metadata, which BlazeRPC servers do not provide.
    Calls raise TypeError or ValueError for invalid arguments and ConnectionError if the server is
    unreachable. Every other error is a GRPCError that is also a ValidationError, ModelNotFoundError or
    InferenceError.
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
        """Close the channel. The next call opens a new one."""
        client, self._client = self._client, None
        if client is None:
            return
        with suppress(RuntimeError):  # Without a running loop, the channel is closed with the client.
            task = asyncio.get_running_loop().create_task(client.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def predict(self, model_name: str, **kwargs: Any) -> Any:
        """Call a model and return its result."""
        try:
            return await self._open_client().predict(model_name, kwargs)
        except CallFailed as error:
            raise _failure(error, model_name) from None

    async def stream(self, model_name: str, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield the items of a stream as they arrive.

        If you leave the loop, the call is cancelled on the server.
        """
        try:
            async with aclosing(self._open_client().stream(model_name, kwargs)) as items:
                async for item in items:
                    yield item
        except CallFailed as error:
            raise _failure(error, model_name) from None

    def _open_client(self) -> AsyncClient:
        if self._client is None:
            if self._registry is None:
                self._client = AsyncClient(self._url, timeout=math.inf)
            else:
                app = self._registry.app
                self._client = AsyncClient.over_typed_rpcs(self._url, app, timeout=math.inf)
        return self._client


class Answered:
    """Base class that sets the attributes of all failed calls.

    List it first, so that the constructors of the other base classes do not run.
    """

    def __init__(self, error: CallFailed, model: str) -> None:
        made: Any = self
        made.status = find_status(error.status_name if error.status_name in Status.__members__ else "UNKNOWN")
        ModelError.__init__(made, error.message, error.status or 500)
        made.details = made.field = None
        made.name = made.model_name = model
        made.version = ""


# a class that may be from a library
class InvalidCall(Answered, GRPCError, ValidationError):  # type: ignore[misc]
    """The server rejected an argument."""


class UnknownModel(Answered, GRPCError, ModelNotFoundError):  # type: ignore[misc]
    """The server does not have the model."""


class FailedCall(Answered, GRPCError, InferenceError):  # type: ignore[misc]
    """The call failed for another reason."""


KINDS: dict[int, Any] = {400: InvalidCall, 404: UnknownModel, 501: UnknownModel}


def _failure(error: CallFailed, model: str) -> Exception:
    if isinstance(error, ConnectionFailed) and error.unreachable:
        return error
    failure: Exception = KINDS.get(error.status or 500, FailedCall)(error, model)
    return failure
