"""Paths in settings, as users write them."""

import os
from typing import TypeVar

Value = TypeVar("Value")


def expanded(value: Value) -> Value | str:
    """A path with `~` and `$NAME` replaced; what is no text, or the URI of something elsewhere, stays as it is."""
    if not isinstance(value, str) or "://" in value:
        return value
    return os.path.expandvars(os.path.expanduser(value))
