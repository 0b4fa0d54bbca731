"""`Client`: the synchronous client. All calls run on one event loop in a background thread."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from ..concurrency.background_loop import background
from .client import AsyncClient
from .client_call import ClientCall, Exit
from .tables import Table

if TYPE_CHECKING:
    from ..functions.app import App

T = TypeVar("T")
P = ParamSpec("P")

END: Final = object()
"""A sentinel that marks the end of an iterator whose values are passed between threads."""


def _wait_for_result(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Client", P], T]:
    """Return the synchronous version of a coroutine method."""

    @wraps(method)
    def run(self: "Client", /, *arguments: P.args, **named: P.kwargs) -> T:
        return background.run(method(self._client, *arguments, **named))

    return run


def _iterate_blocking(
    method: Callable[Concatenate[AsyncClient, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate["Client", P], Generator[T, None, None]]:
    """Return the synchronous version of an async generator method."""

    @wraps(method)
    def iterate(self: "Client", /, *arguments: P.args, **named: P.kwargs) -> Generator[T, None, None]:
        return _iterate_items(lambda: method(self._client, *arguments, **named))

    return iterate


class Client:
    """A synchronous client for one server. Threads can share it.

    The constructor and methods accept the same arguments as in `AsyncClient`.
    """

    def __init__(
        self,
        url: str,
        *,
        app: "App | str | None" = None,
        timeout: float = 60.0,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        verify: bool = True,
    ) -> None:
        self._client = IteratedClient(
            url, app=app, timeout=timeout, retries=retries, headers=headers, verify=verify
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit: *Exit) -> None:
        self.close()

    predict = _wait_for_result(AsyncClient.predict)
    """Call a model and return its result. See `AsyncClient.predict`."""
    stream = _iterate_blocking(AsyncClient.stream)
    """Yield each item of a stream when it arrives. Closing the generator cancels the call on the server."""
    models = _wait_for_result(AsyncClient.models)
    """Return the names of all models that are ready."""
    metadata = _wait_for_result(AsyncClient.metadata)
    """Return the metadata of a model."""
    ready = _wait_for_result(AsyncClient.ready)
    """Return whether a model is ready, or whether the server is if no model is named.

    Raises CallFailed if the connection fails.
    """
    close = _wait_for_result(AsyncClient.aclose)
    """Close the connections."""

    def predict_call(self, ask: Callable[[AsyncClient], ClientCall]) -> Any:
        """Return the result of a call that a generated stub builds with `ask`."""

        async def predict() -> Any:
            return await self._client.predict_call(ask(self._client))

        return background.run(predict())

    def stream_call(self, ask: Callable[[AsyncClient], ClientCall]) -> Generator[Any, None, None]:
        """Yield each item of a streaming call that a generated stub builds with `ask`."""
        return _iterate_items(lambda: self._client.stream_call(ask(self._client)))


def _iterate_items(begin: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
    """Yield the items of a stream, which is opened when the first item is requested."""
    stream: list[AsyncGenerator[T, None]] = []
    reading = asyncio.Lock()

    async def following() -> Any:
        async with reading:
            if not stream:
                stream.append(begin())
            return await anext(stream[0], END)

    async def close() -> None:
        async with reading:  # an interrupted `following` may still be running
            if stream:
                await stream[0].aclose()

    try:
        while (item := background.run(following())) is not END:
            yield item
    finally:
        background.end(close())


class IteratedClient(AsyncClient):
    """An async client that reads the caller's iterators in threads, because they may block."""

    def _prepare(self, model: Any, arguments: Mapping[str, Any], *limits: Any) -> ClientCall:
        if not isinstance(arguments, Table):
            arguments = {
                name: _Blocking(value) if isinstance(value, Iterator) else value
                for name, value in arguments.items()
            }
        return super()._prepare(model, arguments, *limits)


class _Blocking:
    """Adapts a blocking iterator to `async for`."""

    def __init__(self, values: Iterator[Any]) -> None:
        self._values = values

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        value = await asyncio.to_thread(next, self._values, END)
        if value is END:
            raise StopAsyncIteration
        return value
