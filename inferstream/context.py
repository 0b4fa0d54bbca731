"""The current request, as model code can ask about it, and the models that it may call."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

request_id_var: ContextVar[str] = ContextVar("request_id", default="")
"""The X-Request-Id of the request that is served; empty without one."""


class Occupancy(Protocol):
    """A thread that works for a request; a `concurrent.futures.Future` is one."""

    def done(self) -> bool:
        """Whether the request no longer occupies the thread."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> None:
        """Call `fn` when it no longer does, in any thread."""


class ModelCall(Awaitable[Any], Protocol):
    """A call of another model: `await` gives its value, `async for` the items of its stream.

    In code that is no coroutine, `result()` gives the value and `for` the items.
    """

    def __await__(self) -> Generator[Any, Any, Any]: ...

    def __aiter__(self) -> AsyncIterator[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...

    def result(self) -> Any: ...


class OtherModels(Protocol):
    """The models that the one whose code runs may call: those that its setting `calls` names.

    `models.embed(text)` and `models["embed"](text)` are calls. Arguments are given by name, or in the model's order.
    """

    def __getattr__(self, name: str) -> Callable[..., ModelCall]: ...

    def __getitem__(self, name: str) -> Callable[..., ModelCall]: ...


models_var: ContextVar[OtherModels | None] = ContextVar("models", default=None)


def models() -> OtherModels:
    """The models that the running one may call. Raises RuntimeError outside of model code, or without `calls`."""
    models = models_var.get()
    if models is None:
        raise RuntimeError(
            "models are called by the code of a model whose setting `calls` names them, in a call"
        )
    return models


class RequestContext:
    """The time left for a request, and whether its client still waits.

    Async code is cancelled and generators are closed. Blocking code that runs long must check `cancelled` itself.
    """

    __slots__ = ("_carried", "_deadline", "cache_salt", "cancelled", "single", "thread")

    def __init__(
        self,
        remaining: float | None = None,
        single: bool = False,
        carried: tuple[Callable[..., Mapping[str, str]], *tuple[Any, ...]] | None = None,
        cache_salt: str = "",
    ) -> None:
        """`carried` is a function and its arguments, which make the headers if model code reads them."""
        self._deadline = None if remaining is None else time.monotonic() + remaining
        self._carried = carried
        self.single = single
        """Whether the client takes one response only, so that a streaming model may put everything into one."""
        self.cache_salt = cache_salt
        """Keeps the caches of the client's principal apart, such as prefixes that a language model reuses."""
        self.cancelled = False
        """Whether the client has left or the deadline has passed."""
        self.thread: Occupancy | None = None
        """The thread that the request occupies, if any. The execution sets it."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the request, or metadata of its RPC."""
        if self._carried is None:
            return {}
        make, *parts = self._carried
        return make(*parts)

    @headers.setter
    def headers(self, headers: Mapping[str, str]) -> None:
        self._carried = (lambda: headers,)

    @property
    def request_id(self) -> str | None:
        """The X-Request-Id of the current request; None if it has none."""
        return request_id_var.get() or None

    @property
    def models(self) -> OtherModels:
        """The models that the running one may call: those that its setting `calls` names. Raises RuntimeError."""
        return models()

    @property
    def time_remaining(self) -> float | None:
        """Seconds until the deadline, negative after it; None without a deadline."""
        return None if self._deadline is None else self._deadline - time.monotonic()


_current: ContextVar[RequestContext | None] = ContextVar("request_context", default=None)


def request_context() -> RequestContext:
    """The context of the request whose model code is running. Raises RuntimeError outside of model code."""
    context = _current.get()
    if context is None:
        raise RuntimeError("there is a request context only in a model's predict, predict_stream and admit")
    return context


enter = _current.set
"""Make a context the current one of the task or thread that will run model code."""
