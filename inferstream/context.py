"""The request context that model code can read, and the models that it may call."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

request_id_var: ContextVar[str] = ContextVar("request_id", default="")
"""The X-Request-Id of the current request, or an empty string."""


class Occupancy(Protocol):
    """A thread that is executing a request, for example a `concurrent.futures.Future`."""

    def done(self) -> bool:
        """Whether the thread has finished the request."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call `fn`, in any thread, when the thread has finished the request."""


class ModelCall(Awaitable[Any], Protocol):
    """A call to another model: `await` returns its value, `async for` iterates over its stream.

    In synchronous code, use `result()` for the value and `for` for the items.
    """

    def __await__(self) -> Generator[Any, Any, Any]: ...

    def __aiter__(self) -> AsyncIterator[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def result(self) -> Any: ...


class OtherModels(Protocol):
    """The models that the current model may call, listed in its `calls` setting.

    Call them as `models.embed(text)` or `models["embed"](text)`. Pass arguments by name, or in the model's
    order.
    """

    def __getattr__(self, name: str) -> Callable[..., ModelCall]: ...

    def __getitem__(self, name: str) -> Callable[..., ModelCall]: ...


models_var: ContextVar[OtherModels | None] = ContextVar("models", default=None)


def models() -> OtherModels:
    """Return the models that the current model may call.

    Raises RuntimeError outside model code or without `calls`.
    """
    models = models_var.get()
    if models is None:
        raise RuntimeError(
            "models are called by the code of a model whose setting `calls` names them, in a call"
        )
    return models


class RequestContext:
    """The context of a request: the time left, cancellation, headers and related values.

    Async code is cancelled and generators are closed. Long-running blocking code must check `cancelled`
    itself.
    """

    __slots__ = ("_carried", "_deadline", "cache_salt", "cancelled", "single", "thread")

    def __init__(
        self,
        remaining: float | None = None,
        single: bool = False,
        carried: tuple[Callable[..., Mapping[str, str]], *tuple[Any, ...]] | None = None,
        cache_salt: str = "",
    ) -> None:
        """`carried` is a function and its arguments. It builds the headers when model code reads them."""
        self._deadline = None if remaining is None else time.monotonic() + remaining
        self._carried = carried
        self.single = single
        """Whether the client accepts only one response, so that a stream can be sent as a whole."""
        self.cache_salt = cache_salt
        """A key that separates the caches of principals, for example cached prefixes of a language model."""
        self.cancelled = False
        """Whether the client has disconnected or the deadline has passed."""
        self.thread: Occupancy | None = None
        """The thread that the request occupies, if any. The code that executes the call sets it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the request, or metadata of the RPC."""
        if self._carried is None:
            return {}
        make, *parts = self._carried
        return make(*parts)

    @headers.setter
    def headers(self, headers: Mapping[str, str]) -> None:
        self._carried = (lambda: headers,)

    @property
    def request_id(self) -> str | None:
        """The X-Request-Id of the current request, or None."""
        return request_id_var.get() or None

    @property
    def models(self) -> OtherModels:
        """The models that the current model may call, listed in its setting `calls`.

        Raises RuntimeError if it lists none.
        """
        return models()

    @property
    def time_remaining(self) -> float | None:
        """Seconds until the deadline, negative after it. None without a deadline."""
        return None if self._deadline is None else self._deadline - time.monotonic()


_current: ContextVar[RequestContext | None] = ContextVar("request_context", default=None)


def request_context() -> RequestContext:
    """Return the context of the current request. Raises RuntimeError outside model code."""
    context = _current.get()
    if context is None:
        raise RuntimeError("there is a request context only in a model's predict, predict_stream and admit")
    return context


enter = _current.set
"""Set the current context of the task or thread that will run model code."""
