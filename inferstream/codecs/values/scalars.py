"""Single values: text, bytes, numbers, booleans, times and choices."""

import base64
import binascii
import enum
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import Any

import numpy as np
import orjson

from ...types import RequestInput, ResponseOutput
from ...types.conversion import array_from_values
from ...types.datatypes import DTYPES, FLOATS, INTEGERS
from .base import CHOICES, Value, brief, single


class Text(Value):
    """`str` as one element of BYTES, UTF-8 on the wire."""

    datatype = "BYTES"
    content = "str"

    def read(self, tensor: RequestInput | ResponseOutput) -> str:
        expect(tensor, "BYTES")
        return as_text(single(tensor))

    def write(self, value: Any) -> tuple[list[int], Any]:
        if not isinstance(value, str):
            raise TypeError(f"takes text, got {brief(value)}")
        return [1], [value]

    def from_json(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"takes text, got {brief(value)}")
        return value

    def to_json(self, value: Any) -> Any:
        return value


class Binary(Value):
    """`bytes` as one element of BYTES. JSON holds them as base64."""

    datatype = "BYTES"
    content = "base64"

    def read(self, tensor: RequestInput | ResponseOutput) -> bytes:
        expect(tensor, "BYTES")
        element = single(tensor)
        parameters = tensor.parameters
        encoded = parameters is not None and parameters.content_type == "base64"
        if isinstance(element, bytes | bytearray | memoryview) and not encoded:
            return bytes(element)
        return from_base64(element)

    def write(self, value: Any) -> tuple[list[int], Any]:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"takes bytes, got {brief(value)}")
        return [1], [bytes(value)]

    def from_json(self, value: Any) -> bytes:
        return from_base64(value)

    def to_json(self, value: Any) -> str:
        return base64.b64encode(value).decode()


class Number(Value):
    """`int`, `float` or a number of NumPy, as one element of a numeric datatype."""

    def __init__(self, datatype: str) -> None:
        self.datatype = datatype
        self._integer = datatype in INTEGERS
        self._wide = datatype in ("INT64", "FP64")

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        if tensor.datatype != self.datatype and not (
            tensor.datatype in INTEGERS or (tensor.datatype in FLOATS and not self._integer)
        ):
            raise ValueError(f"takes {self.datatype}, got {tensor.datatype}")
        return self._exact(single(tensor))

    def write(self, value: Any) -> tuple[list[int], Any]:
        if isinstance(value, np.generic):
            value = value.item()
        return [1], [self._exact(value)]

    def from_json(self, value: Any) -> Any:
        return self._exact(value)

    def to_json(self, value: Any) -> Any:
        return value

    def _exact(self, value: Any) -> Any:
        """The number, in the range of the datatype."""
        if value is None and not self._integer:
            return float("nan")  # JSON has no NaN; both directions of the wire use null
        if isinstance(value, bool) or not isinstance(value, int if self._integer else int | float):
            if self._integer and isinstance(value, float) and value.is_integer():
                value = int(value)
            else:
                wanted = "an integer" if self._integer else "a number"
                raise TypeError(f"takes {wanted}, got {brief(value)}")
        if not self._integer:
            value = float(value)
        elif self._wide and -(2**63) <= value < 2**63:
            return value
        if self.datatype != "FP64":
            array_from_values([value], self.datatype)
        return value


class Boolean(Value):
    """`bool` as one element of BOOL."""

    datatype = "BOOL"

    def read(self, tensor: RequestInput | ResponseOutput) -> bool:
        if tensor.datatype != "BOOL":
            raise ValueError(f"takes BOOL, got {tensor.datatype}")
        return bool(single(tensor))

    def write(self, value: Any) -> tuple[list[int], Any]:
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"takes true or false, got {brief(value)}")
        return [1], [bool(value)]

    def from_json(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError(f"takes true or false, got {brief(value)}")
        return value

    def to_json(self, value: Any) -> Any:
        return bool(value)


class Time(Value):
    """`datetime`, `date` or `time` as ISO 8601 text."""

    datatype = "BYTES"
    content = "datetime"

    def __init__(self, kind: type[datetime] | type[date] | type[time] = datetime) -> None:
        self._kind = kind

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        expect(tensor, "BYTES")
        return self.from_json(as_text(single(tensor)))

    def write(self, value: Any) -> tuple[list[int], Any]:
        return [1], [self.to_json(value)]

    def from_json(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise TypeError(f"takes an ISO 8601 text, got {brief(value)}")
        try:
            return self._kind.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"not an ISO 8601 {self._kind.__name__} ({error})") from None

    def to_json(self, value: Any) -> str:
        if not isinstance(value, date | time):
            raise TypeError(f"takes a {self._kind.__name__}, got {brief(value)}")
        return value.isoformat()


class Choice(Value):
    """One of several values: `Literal`, an `Enum`, or the `choices` of a declared tensor.

    An enum travels as the values of its members. All values have one type, which `of` converts.
    """

    def __init__(self, of: Value, values: Sequence[Any], members: type[enum.Enum] | None = None) -> None:
        self._of = of
        self._values = [*values]
        self._members = members
        self.datatype = of.datatype
        self.content = of.content

    def facts(self) -> dict[str, Any]:
        return {CHOICES: orjson.dumps([self._of.to_json(value) for value in self._values]).decode()}

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        return self._chosen(self._of.read(tensor))

    def write(self, value: Any) -> tuple[list[int], Any]:
        return self._of.write(self._plain(value))

    def from_json(self, value: Any) -> Any:
        return self._chosen(self._of.from_json(value))

    def to_json(self, value: Any) -> Any:
        return self._of.to_json(self._plain(value))

    def _chosen(self, value: Any) -> Any:
        if value not in self._values:
            raise ValueError(f"{brief(value)} is none of {', '.join(map(repr, self._values))}")
        return value if self._members is None else self._members(value)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            value = value.value
        self._chosen(value)
        return value


def expect(tensor: RequestInput | ResponseOutput, datatype: str) -> None:
    """Raise ValueError unless a tensor has this datatype."""
    if tensor.datatype != datatype:
        raise ValueError(f"takes {datatype}, got {tensor.datatype}")


def as_text(element: Any) -> str:
    """An element of BYTES as text. Raises TypeError and ValueError."""
    if isinstance(element, str):
        return element
    if element is None:
        raise TypeError("takes text, got null")
    try:
        return str(element, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text ({error})") from None


def from_base64(element: Any) -> bytes:
    """The bytes of a base64 text. Raises TypeError and ValueError."""
    if not isinstance(element, str | bytes | bytearray | memoryview):
        raise TypeError(f"takes base64 text, got {brief(element)}")
    try:
        return base64.b64decode(element, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not valid base64 ({error})") from None


def number_of(dtype: type[Any]) -> Number | None:
    """The value of a number type of NumPy; None if it has no datatype."""
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        return None
    for name, known in DTYPES.items():
        if name != "BF16" and known == wanted and wanted.kind in "iuf":
            return Number(name)
    return None
