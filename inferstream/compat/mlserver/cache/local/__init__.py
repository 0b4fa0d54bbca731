"""A cache in this process's memory."""

from .local import LocalCache

__all__ = ["LocalCache"]
