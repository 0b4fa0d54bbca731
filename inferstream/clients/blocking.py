"""`Client`: the same client for code without asyncio. The calls run on one event loop in a thread."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from ..concurrency.background_loop import background
from ..types import MetadataModelResponse
from .asked import AskedCall, Exit, Scalar
from .client import AsyncClient
from .tables import Table, given

if TYPE_CHECKING:
    from ..functions.app import App
    from .tables import Arguments

T = TypeVar("T")

END: Final = object()
"""What stands for the end of an iterator between threads."""


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
        self._client = AsyncClient(
            url, app=app, timeout=timeout, retries=retries, headers=headers, verify=verify
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exit: *Exit) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        background.run(self._client.aclose())

    def predict(
        self,
        model: str,
        arguments: "Arguments | None" = None,
        /,
        *,
        version: str | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        **named: Any,
    ) -> Any:
        """The result of a model, as of `AsyncClient.predict`."""
        known = _from_threads(given(arguments, named))
        return background.run(
            self._client.predict(
                model, known, version=version, timeout=timeout, headers=headers, parameters=parameters
            )
        )

    def stream(
        self,
        model: str,
        arguments: "Arguments | None" = None,
        /,
        *,
        version: str | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Scalar] | None = None,
        **named: Any,
    ) -> Generator[Any, None, None]:
        """Each item of a stream, when it arrives. Leaving the loop cancels the call on the server."""
        known = _from_threads(given(arguments, named))
        return _items(
            lambda: self._client.stream(
                model, known, version=version, timeout=timeout, headers=headers, parameters=parameters
            )
        )

    def models(self, *, timeout: float | None = None) -> list[str]:
        """The names of the models that are ready."""
        return background.run(self._client.models(timeout=timeout))

    def metadata(
        self, model: str, *, version: str | None = None, timeout: float | None = None
    ) -> MetadataModelResponse:
        """What the server says of a model."""
        return background.run(self._client.metadata(model, version=version, timeout=timeout))

    def ready(
        self, model: str | None = None, *, version: str | None = None, timeout: float | None = None
    ) -> bool:
        """Whether a model is ready, or the server without a model. Raises CallFailed without a connection."""
        return background.run(self._client.ready(model, version=version, timeout=timeout))

    def predict_asked(self, ask: Callable[[AsyncClient], AskedCall]) -> Any:
        """The result of a call, for a stub."""

        async def predict() -> Any:
            return await self._client.predict_asked(_threaded(ask(self._client)))

        return background.run(predict())

    def stream_asked(self, ask: Callable[[AsyncClient], AskedCall]) -> Generator[Any, None, None]:
        """Each item of the stream of a call, for a stub."""
        return _items(lambda: self._client.stream_asked(_threaded(ask(self._client))))


def _items(begin: Callable[[], AsyncGenerator[Any, None]]) -> Generator[Any, None, None]:
    """The items of a stream, which begins with the first."""
    stream: list[AsyncGenerator[Any, None]] = []
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


def _threaded(asked: AskedCall) -> AskedCall:
    asked.arguments = _from_threads(asked.arguments)
    return asked


def _from_threads(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments, where iterators are read in threads because they may block."""
    if isinstance(arguments, Table):
        return arguments
    return {
        name: _Blocking(value) if isinstance(value, Iterator) else value for name, value in arguments.items()
    }


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
