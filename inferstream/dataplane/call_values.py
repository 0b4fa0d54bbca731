"""Values that plug-ins attach to calls."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Generic, TypeVar

from ..extensions.entries import CALL_VALUES
from ..extensions.loading import load_group
from .call import Call

T = TypeVar("T")


class CallValue(Generic[T]):
    """A typed key for values that a plug-in attaches to calls, for example to pass data between stages.

    Create one instance per kind of value, and use it to set and get the value of each call. Calls without a
    value use no memory for it. Override `pack` and `unpack` to send the value to worker processes, and
    `inherit` to pass it on to calls that a model makes.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def set(self, call: Call, value: T) -> None:
        if hasattr(call, "values"):
            call.values[self] = value
        else:
            call.values = {self: value}

    def get(self, call: Call) -> T | None:
        """Return the value of a call, or None."""
        return call.values.get(self) if hasattr(call, "values") else None

    def pack(self, value: T) -> Any:
        """Convert the value to an object that MessagePack can encode, to send it to a worker.

        Return None to send nothing.
        """

    def unpack(self, packed: Any) -> T:
        """Restore the value in the worker process."""
        raise NotImplementedError

    def inherit(self, value: T, call: Call) -> T | None:
        """Return the value for a call that a model makes while it runs `call`, or None."""

    def end(self, value: T, tokens: int) -> None:
        """Called at the end of a call without an admission, with the number of tokens it used.

        Such calls are nested calls of models, shadow copies, and calls in worker processes.
        """


def pack_values(call: Call) -> dict[str, Any]:
    """Pack the values of a call for a worker process. The call must have `values`."""
    packed = {key.name: key.pack(value) for key, value in call.values.items()}
    return {name: value for name, value in packed.items() if value is not None}


def unpack_values(call: Call, packed: Mapping[str, Any]) -> None:
    """Set the values that were sent with a call to this worker process."""
    for name, value in packed.items():
        if (
            key := _load_call_values().get(name)
        ) is not None:  # The plug-in may be missing from the worker's environment.
            key.set(call, key.unpack(value))


def inherit_values(call: Call, outer: Call) -> None:
    """Pass the values of `outer` on to a nested call. `outer` must have `values`."""
    for key, value in outer.values.items():
        if (inherited := key.inherit(value, outer)) is not None:
            key.set(call, inherited)


@cache
def _load_call_values() -> dict[str, CallValue[Any]]:
    return {value.name: value for _, value in load_group(CALL_VALUES, strict=False)}
