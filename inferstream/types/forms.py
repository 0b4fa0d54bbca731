"""Layouts of requests and responses with single values, computed once when a model loads."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

KINDS: dict[str, type[Any]] = {"INT64": int, "FP64": float, "BYTES": str, "BOOL": bool}
"""Python types of values that are used without conversion, by datatype."""

LEAST, LARGEST = -(2**63), 2**63 - 1


class InputsForm:
    """The inputs of a model, each of which has a single value."""

    __slots__ = ("datatypes", "kinds", "required")

    def __init__(self, datatypes: Mapping[str, str], optional: Collection[str] = ()) -> None:
        self.datatypes = dict(datatypes)
        self.kinds = {name: KINDS[datatype] for name, datatype in datatypes.items()}
        self.required = frozenset(datatypes).difference(optional)

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Whether `values` are complete and of the right types.

        If not, a conversion may still make them fit.
        """
        kinds = self.kinds
        for name, value in values.items():
            kind = kinds.get(name)
            if type(value) is not kind or (kind is int and not LEAST <= value <= LARGEST):
                return False
        return len(values) == len(kinds) or self.required <= values.keys()


class OutputForm(msgspec.Struct, array_like=True, frozen=True, cache_hash=True):
    """Everything in a single-value response except the value and the request id.

    `base64` is True if the value is `bytes`, which JSON represents as base64. Forms are compared by value, so
    a cache entry for a form stays valid when the model is reloaded.
    """

    model_name: str
    model_version: str | None
    name: str
    datatype: str
    shape: tuple[int, ...]
    base64: bool = False

    @property
    def kind(self) -> type[Any]:
        """The Python type of a value that fits. An `int` must also be within 64 bits."""
        return bytes if self.base64 else KINDS[self.datatype]

    def fits(self, value: Any) -> bool:
        """Whether `value` has the right type and range. If not, a conversion may still make it fit."""
        kind: type[Any] = bytes if self.base64 else KINDS[self.datatype]
        return type(value) is kind and (kind is not int or LEAST <= value <= LARGEST)
