"""Custom REST routes of a model."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeVar

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_MARK = "__custom_handler__"


class CustomHandler(NamedTuple):
    """A custom route of a model: a path, which may hold `{parameters}`, and an HTTP method."""

    rest_path: str
    rest_method: str = "POST"


class HttpRequest(NamedTuple):
    """A whole HTTP request; `query` is the part after the question mark."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    client: tuple[str, int] | None = None
    """The client's address."""
    scheme: str = "http"
    root_path: str = ""
    """Where the application is mounted, which `path` leaves out."""


class ResponseBody(Protocol):
    """The rest of a response body, which its route still sends."""

    async def read(self) -> bytes:
        """The next bytes, as soon as there are any; empty at the end. Raises what the route raises."""

    async def aclose(self) -> None:
        """Stop reading. A route that has not sent everything sees a disconnect."""


class HttpResponse(NamedTuple):
    """An HTTP response. If it has a `rest`, that follows `body`, and its reader closes it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    rest: ResponseBody | None = None


RouteHandler = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Serves the requests to one model's custom routes."""


def custom_handler(rest_path: str, rest_method: str = "POST") -> Callable[[Decorated], Decorated]:
    """Decorator: serve `rest_method rest_path` by a method of a model.

    FastAPI reads the parameters by their annotations and writes the return value. It reads a body without a content
    type as JSON. The method runs in the process of the model. It can return any Starlette response: streams are sent as
    they come, and background tasks run after the response. A route for GET serves HEAD too. The model does not load if
    FastAPI rejects the route.
    """

    def mark(method: Decorated) -> Decorated:
        setattr(method, _MARK, CustomHandler(rest_path, rest_method.upper()))
        return method

    return mark


def get_custom_handlers(model: object) -> list[tuple[CustomHandler, Callable[..., Any]]]:
    """The custom routes of a model or its class, and their methods."""
    handlers = []
    kind = model if isinstance(model, type) else type(model)
    for name in dir(kind):
        mark = getattr(getattr(kind, name, None), _MARK, None)
        if mark is not None:
            handlers.append((mark, getattr(model, name)))
    return handlers
