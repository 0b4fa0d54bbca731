"""Custom REST routes of a model."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

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


class HttpResponse(NamedTuple):
    """A whole HTTP response."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


RouteHandler = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""Serves the requests to one model's custom routes."""


def custom_handler(rest_path: str, rest_method: str = "POST") -> Callable[[Decorated], Decorated]:
    """Decorator: serve `rest_method rest_path` by a method of a model.

    FastAPI reads the parameters by their annotations and writes the return value. It reads a body without a content
    type as JSON. The method runs in the process of the model. Any response of Starlette is sent whole, streams too. The
    model does not load if FastAPI rejects the route.
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
