"""REST routes of a model's own."""

from inferstream.handlers import CustomHandler, custom_handler, get_custom_handlers

__all__ = ["CustomHandler", "custom_handler", "get_custom_handlers"]
