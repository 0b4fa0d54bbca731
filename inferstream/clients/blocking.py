"""`Client`: the same client for code without asyncio. The calls run on one event loop in a thread."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from ..concurrency.background_loop import background
from .asked import AskedCall, Exit
from .client import AsyncClient
from .tables import Table

if TYPE_CHECKING:
    from ..functions.app import App

T = TypeVar("T")
P = ParamSpec("P")

END: Final = object()
"""What stands for the end of an iterator between threads."""


def _result_of(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Client", P], T]:
    """The method of `Client` that runs this one, and waits for its result."""

    @wraps(method)
    def run(self: "Client", /, *arguments: P.args, **named: P.kwargs) -> T:
        return background.run(method(self._client, *arguments, **named))

    return run


def _items_of(
    method: Callable[Concatenate[AsyncClient, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate["Client", P], Generator[T, None, None]]:
    """The method of `Client` that waits for each item of this one."""

    @wraps(method)
    def iterate(self: "Client", /, *arguments: P.args, **named: P.kwargs) -> Generator[T, None, None]:
        return _items(lambda: method(self._client, *arguments, **named))

    return iterate


class Client:
    """A client of one server, for code without asyncio. Several threads may use it at once.

    Its arguments, and those of its methods, are the same as of `AsyncClient`.
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

    predict = _result_of(AsyncClient.predict)
    """The result of a model, as of `AsyncClient.predict`."""
    stream = _items_of(AsyncClient.stream)
    """Each item of a stream, when it arrives. Leaving the loop cancels the call on the server."""
    models = _result_of(AsyncClient.models)
    """The names of the models that are ready."""
    metadata = _result_of(AsyncClient.metadata)
    """What the server says of a model."""
    ready = _result_of(AsyncClient.ready)
    """Whether a model is ready, or the server without a model. Raises CallFailed without a connection."""
    close = _result_of(AsyncClient.aclose)
    """Close the connections."""

    def predict_asked(self, ask: Callable[[AsyncClient], AskedCall]) -> Any:
        """The result of a call, for a stub."""

        async def predict() -> Any:
            return await self._client.predict_asked(ask(self._client))

        return background.run(predict())

    def stream_asked(self, ask: Callable[[AsyncClient], AskedCall]) -> Generator[Any, None, None]:
        """Each item of the stream of a call, for a stub."""
        return _items(lambda: self._client.stream_asked(ask(self._client)))


def _items(begin: Callable[[], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
    """The items of a stream, which begins with the first."""
    stream: list[AsyncGenerator[T, None]] = []
    reading = asyncio.Lock()

    async def following() -> Any:
        async with reading:
            if not stream:
                stream.append(begin())
            return await anext(stream[0], END)

    async def close() -> None:
        async with reading:  # an interrupted `following` may still be ending
            if stream:
                await stream[0].aclose()

    try:
        while (item := background.run(following())) is not END:
            yield item
    finally:
        background.end(close())


class IteratedClient(AsyncClient):
    """Reads iterators of its caller in threads, because they may block."""

    def _asked(self, model: Any, arguments: Mapping[str, Any], *limits: Any) -> AskedCall:
        if not isinstance(arguments, Table):
            arguments = {
                name: _Blocking(value) if isinstance(value, Iterator) else value
                for name, value in arguments.items()
            }
        return super()._asked(model, arguments, *limits)


class _Blocking:
    """A blocking iterator for `async for`."""

    def __init__(self, values: Iterator[Any]) -> None:
        self._values = values

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        value = await asyncio.to_thread(next, self._values, END)
        if value is END:
            raise StopAsyncIteration
        return value
