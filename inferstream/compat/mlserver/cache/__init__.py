"""Caches of responses."""

from .cache import ResponseCache
from .local import LocalCache

__all__ = ["LocalCache", "ResponseCache"]
