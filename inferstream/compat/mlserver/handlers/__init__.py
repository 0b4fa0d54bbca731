"""REST routes of a model's own."""

from inferstream.handlers import custom_handler, get_custom_handlers

__all__ = ["custom_handler", "get_custom_handlers"]
