"""Parts of MLServer's machinery that are built differently here."""

from typing import Any, ClassVar

from inferstream.errors import Unsupported


class Sentence(type):
    """What a `Replaced` says to whoever looks for more in it."""

    instead: str

    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(_sentence(f"{cls.__module__}.{cls.__name__}", cls.__dict__.get("instead", "")))


class Replaced(metaclass=Sentence):
    """A class for annotations and `isinstance` alone; making one raises Unsupported and says what to use instead."""

    instead: ClassVar[str]

    def __init__(self, *_: Any, **__: Any) -> None:
        raise Unsupported(_sentence(f"{type(self).__module__}.{type(self).__name__}", self.instead))


def _sentence(name: str, instead: str) -> str:
    return f"{name} is a part of MLServer that inferstream does not have: {instead}."
