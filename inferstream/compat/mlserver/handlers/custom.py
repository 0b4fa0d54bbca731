"""REST routes of a model's own."""

from collections.abc import Callable
from typing import Any

from inferstream.handlers import CustomHandler, custom_handler, get_custom_handlers


def register_custom_handler(handler: CustomHandler, method: Callable[..., Any]) -> None:
    """Let a method of a model answer where `handler` says."""
    custom_handler(*handler)(method)


__all__ = ["CustomHandler", "custom_handler", "get_custom_handlers", "register_custom_handler"]
