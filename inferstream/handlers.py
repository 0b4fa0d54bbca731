"""REST routes of a model's own, beside the protocol's."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_MARK = "__custom_handler__"


class CustomHandler(NamedTuple):
    """Where a model's method answers: a fixed path, which may hold `{parameters}`, and an HTTP method."""

    rest_path: str
    rest_method: str = "POST"


class HttpRequest(NamedTuple):
    """A whole HTTP request; `query` is what stands behind the question mark."""

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
"""Answers the requests to one model's own routes."""


def custom_handler(rest_path: str, rest_method: str = "POST") -> Callable[[Decorated], Decorated]:
    """Let a method of a model answer `rest_method rest_path`, with FastAPI's rules for its parameters."""

    def mark(method: Decorated) -> Decorated:
        setattr(method, _MARK, CustomHandler(rest_path, rest_method.upper()))
        return method

    return mark


def get_custom_handlers(model: object) -> list[tuple[CustomHandler, Callable[..., Any]]]:
    """The routes a model or its class has of its own, and the methods behind them."""
    found = []
    kind = model if isinstance(model, type) else type(model)
    for name in dir(kind):
        mark = getattr(getattr(kind, name, None), _MARK, None)
        if mark is not None:
            found.append((mark, getattr(model, name)))
    return found
