"""Values that plug-ins keep with calls."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar

from ..extensions import CALL_VALUES, loaded
from .call import Call

T = TypeVar("T")


class CallValue(Generic[T]):
    """A value that a plug-in keeps with a call, as one stage tells another. Other calls take no memory for it.

    A plug-in makes one object of this class, with which it sets and reads the values of all calls. A subclass may pass
    them on: `pack` and `unpack` to a worker process, and `inherit` to the calls that the code of a model makes.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def set(self, call: Call, value: T) -> None:
        if hasattr(call, "values"):
            call.values[self] = value
        else:
            call.values = {self: value}

    def get(self, call: Call) -> T | None:
        """The value of a call; None if it has none."""
        return call.values.get(self) if hasattr(call, "values") else None

    def pack(self, value: T) -> Any:
        """What a worker process gets as MessagePack; None for nothing."""

    def unpack(self, packed: Any) -> T:
        """The value of the call in the worker process."""
        raise NotImplementedError

    def inherit(self, value: T, call: Call) -> T | None:
        """The value of a call that a model makes while it runs `call`; None for none."""

    def end(self, value: T, tokens: int) -> None:
        """Called with the tokens that a call without an admission has used: one in a worker, by a model, or a copy."""


def pack_values(call: Call) -> dict[str, Any]:
    """What a worker process gets of the values of a call that has any."""
    packed = {key.name: key.pack(value) for key, value in call.values.items()}
    return {name: value for name, value in packed.items() if value is not None}


def unpack_values(call: Call, packed: Mapping[str, Any]) -> None:
    """Set the values that came with a call to this worker process."""
    for name, value in packed.items():
        if (
            key := _known().get(name)
        ) is not None:  # its package may be missing from the worker's environment
            key.set(call, key.unpack(value))


def inherit_values(call: Call, outer: Call) -> None:
    """Set the values of a call by a model that runs `outer`, which has some."""
    for key, value in outer.values.items():
        if (inherited := key.inherit(value, outer)) is not None:
            key.set(call, inherited)


@cache
def _known() -> dict[str, CallValue[Any]]:
    return {value.name: value for _, value in loaded(CALL_VALUES, strict=False)}
