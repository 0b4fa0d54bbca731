"""Expansion of paths in settings."""

import os
from typing import TypeVar

Value = TypeVar("Value")


def expanded(value: Value) -> Value | str:
    """A path with `~` and `$NAME` replaced. URIs and values that are not text do not change."""
    if not isinstance(value, str) or "://" in value:
        return value
    return os.path.expandvars(os.path.expanduser(value))
