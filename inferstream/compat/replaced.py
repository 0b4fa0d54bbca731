"""Parts of MLServer's machinery that are built differently here."""

from typing import Any, ClassVar

from inferstream.errors import Unsupported


class Replaced:
    """A class for annotations and `isinstance` alone; making one raises Unsupported and says what to use instead."""

    instead: ClassVar[str]

    def __init__(self, *_: Any, **__: Any) -> None:
        raise unsupported(f"{type(self).__module__}.{type(self).__name__}", self.instead)


def unsupported(name: str, instead: str) -> Unsupported:
    """The error for a part of the machinery that somebody wants to use."""
    return Unsupported(f"{name} is a part of MLServer that inferstream does not have: {instead}.")
