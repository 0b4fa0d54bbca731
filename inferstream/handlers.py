"""Custom REST routes of a model."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeVar

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_MARK = "__custom_handler__"


class CustomHandler(NamedTuple):
    """A custom route of a model: a path, which may contain `{parameters}`, and an HTTP method."""

    rest_path: str
    rest_method: str = "POST"


class HttpRequest(NamedTuple):
    """A complete HTTP request. `query` is the part after the question mark."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    client: tuple[str, int] | None = None
    """The host and port of the client."""
    scheme: str = "http"
    root_path: str = ""
    """The path where the application is mounted, which `path` does not include."""


class ResponseBody(Protocol):
    """The rest of a response body that the route is still sending."""

    async def read(self) -> bytes:
        """Return the next bytes, as soon as they are available, or empty bytes at the end.

        Raises the error that the route raises.
        """

    async def aclose(self) -> None:
        """Stop reading. If the route has not sent everything, it receives a disconnect."""


class HttpResponse(NamedTuple):
    """An HTTP response. `rest`, if set, follows `body`, and its reader must close it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    rest: ResponseBody | None = None


RouteHandler = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Handles requests to the custom routes of one model."""


def custom_handler(rest_path: str, rest_method: str = "POST") -> Callable[[Decorated], Decorated]:
    """Decorate a model method to serve `rest_method rest_path`.

    FastAPI parses the parameters according to their annotations and serializes the return value. A body
    without a content type is parsed as JSON. The method runs in the process of the model. It can return any
    Starlette response, so streams are sent piece by piece, and background tasks run after the response. A GET
    route also serves HEAD. The model fails to load if FastAPI rejects the route.
    """

    def mark(method: Decorated) -> Decorated:
        setattr(method, _MARK, CustomHandler(rest_path, rest_method.upper()))
        return method

    return mark


def get_custom_handlers(model: object) -> list[tuple[CustomHandler, Callable[..., Any]]]:
    """Return the custom routes of a model or model class, with their methods."""
    handlers = []
    kind = model if isinstance(model, type) else type(model)
    for name in dir(kind):
        mark = getattr(getattr(kind, name, None), _MARK, None)
        if mark is not None:
            handlers.append((mark, getattr(model, name)))
    return handlers
