"""Forms: what a model's requests and responses of single values hold beside the values, made once when it loads."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

KINDS: dict[str, type[Any]] = {"INT64": int, "FP64": float, "BYTES": str, "BOOL": bool}
"""The types of values that need no conversion, by datatype."""

LEAST, LARGEST = -(2**63), 2**63 - 1


class InputsForm:
    """The inputs of a model that are all single values."""

    __slots__ = ("datatypes", "kinds", "required")

    def __init__(self, datatypes: Mapping[str, str], optional: Collection[str] = ()) -> None:
        self.datatypes = dict(datatypes)
        self.kinds = {name: KINDS[datatype] for name, datatype in datatypes.items()}
        self.required = frozenset(datatypes).difference(optional)

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Whether these are the values of a request, each of the right type. Others may fit after a conversion."""
        kinds = self.kinds
        for name, value in values.items():
            kind = kinds.get(name)
            if type(value) is not kind or (kind is int and not LEAST <= value <= LARGEST):
                return False
        return len(values) == len(kinds) or self.required <= values.keys()


class OutputForm(msgspec.Struct, array_like=True, frozen=True, cache_hash=True):
    """Everything of a response of one value but the value and the request's id.

    `base64` tells that the value is `bytes` which JSON holds as base64. The form of a model that is loaded again is
    equal, so that what is cached for it stays one.
    """

    model_name: str
    model_version: str | None
    name: str
    datatype: str
    shape: tuple[int, ...]
    base64: bool = False

    @property
    def kind(self) -> type[Any]:
        """The type of values that fit without a look at each, unless it is `int`: an integer may exceed 64 bits."""
        return bytes if self.base64 else KINDS[self.datatype]

    def fits(self, value: Any) -> bool:
        """Whether this is the value of a response, of the right type. Another may fit after a conversion."""
        kind: type[Any] = bytes if self.base64 else KINDS[self.datatype]
        return type(value) is kind and (kind is not int or LEAST <= value <= LARGEST)
