"""Single values: text, bytes, numbers, booleans and times."""

import base64
import binascii
import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from typing import Any

import numpy as np
import orjson

from ...types import RequestInput, ResponseOutput
from ...types.conversion import array_from_values, as_array, whole
from ...types.datatypes import DTYPES, FLOATS, INTEGERS
from ...types.forms import KINDS, LARGEST, LEAST
from ...types.json_encoding import decode
from .base import FORMAT, SingleValue, brief, single


def as_text(element: Any) -> str:
    """An element of BYTES as text. Raises TypeError and ValueError."""
    if isinstance(element, str):
        return element
    if element is None:
        raise TypeError("takes text, got null")
    try:
        return str(element, "utf-8")
    except TypeError:
        raise TypeError(f"takes text, got {brief(element)}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text ({error})") from None


class Text(SingleValue):
    """`str` as one element of BYTES, UTF-8 on the wire."""

    datatype = "BYTES"
    content = "str"

    from_element = staticmethod(as_text)
    from_json = staticmethod(as_text)  # type: ignore[assignment]

    def read(self, tensor: RequestInput | ResponseOutput) -> str:
        self._expect(tensor)
        return as_text(single(tensor))

    def element(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"takes text, got {brief(value)}")
        return value

    def plain(self, values: Sequence[Any]) -> list[Any] | None:
        return [*values] if {*map(type, values)} == {str} else None

    def to_json(self, value: Any) -> Any:
        return value


class Binary(SingleValue):
    """`bytes` as one element of BYTES. JSON holds them as base64."""

    datatype = "BYTES"
    content = "base64"

    def reader(self, tensor: RequestInput | ResponseOutput) -> Callable[[Any], Any]:
        self._expect(tensor)
        parameters = tensor.parameters
        if parameters is not None and parameters.content_type == "base64":
            return from_base64
        return _bytes_of_output if isinstance(tensor, ResponseOutput) else bytes_of

    def element(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"takes bytes, got {brief(value)}")
        return bytes(value)

    def from_json(self, value: Any) -> bytes:
        return bytes_of(value)

    def to_json(self, value: Any) -> str:
        return base64.b64encode(value).decode()


def bytes_of(element: Any) -> bytes:
    """Bytes as they are, or those of a base64 text. Raises TypeError and ValueError."""
    if isinstance(element, bytes | bytearray | memoryview):
        return bytes(element)
    return from_base64(element)


def _bytes_of_output(element: Any) -> bytes:
    """Servers name base64 in an output that needs it; other texts are the bytes themselves."""
    return element.encode() if isinstance(element, str) else bytes(memoryview(element))


class Number(SingleValue):
    """`int`, `float` or a number of NumPy, as one element of a numeric datatype."""

    def __init__(self, datatype: str) -> None:
        self.datatype = datatype
        self._integer = datatype in INTEGERS
        self._plain = KINDS.get(datatype)

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        if tensor.datatype != self.datatype:
            self._expect(tensor)
        return self.from_json(single(tensor))

    def read_all(self, tensor: RequestInput | ResponseOutput) -> list[Any]:
        self._expect(tensor)
        numbers: list[Any] = tensor.data.to_numpy(self.datatype).reshape(-1).tolist()
        return numbers

    def element(self, value: Any) -> Any:
        return self._exact(_plain(value))

    def plain(self, values: Sequence[Any]) -> list[Any] | None:
        integer = self._integer
        for kind in {*map(type, values)}:
            if not (kind is int or issubclass(kind, np.integer)) and (
                integer or not (kind is float or issubclass(kind, np.floating))
            ):
                return None
        try:
            numbers: list[Any] = [*map(int if integer else float, values)]
            if self.datatype != "FP64":
                array_from_values(numbers, self.datatype)
        except (ValueError, OverflowError):  # the look at each number says which one
            return None
        return numbers

    def from_json(self, value: Any) -> Any:
        if type(value) is self._plain and (not self._integer or LEAST <= value <= LARGEST):
            return value
        if value is None and not self._integer:
            return math.nan  # JSON has no NaN; both directions of the wire use null
        return self._exact(value)

    from_element = from_json

    def _expect(self, tensor: RequestInput | ResponseOutput) -> None:
        if tensor.datatype != self.datatype and not (
            tensor.datatype in INTEGERS or (tensor.datatype in FLOATS and not self._integer)
        ):
            raise ValueError(f"takes {self.datatype}, got {tensor.datatype}")

    def _exact(self, value: Any) -> Any:
        """The number, in the range of the datatype."""
        if isinstance(value, bool) or not isinstance(value, int if self._integer else int | float):
            if self._integer and isinstance(value, float) and value.is_integer():
                value = whole(value, self.datatype)
            else:
                wanted = "an integer" if self._integer else "a number"
                raise TypeError(f"takes {wanted}, got {brief(value)}")
        if not self._integer:
            try:
                value = float(value)
            except OverflowError:
                raise ValueError(f"{brief(value)} is out of range for {self.datatype}") from None
        if self.datatype != "FP64":
            array_from_values([value], self.datatype)
        return value


class Boolean(SingleValue):
    """`bool` as one element of BOOL."""

    datatype = "BOOL"

    def from_element(self, element: Any) -> bool:
        if element is None:
            raise TypeError("takes true or false, got null")
        return bool(element)

    def element(self, value: Any) -> bool:
        value = _plain(value)
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"takes true or false, got {brief(value)}")
        return bool(value)

    def plain(self, values: Sequence[Any]) -> list[Any] | None:
        return [*values] if {*map(type, values)} == {bool} else None

    def to_json(self, value: Any) -> Any:
        return bool(value)


class Time(SingleValue):
    """`datetime`, `date` or `time` as ISO 8601 text."""

    datatype = "BYTES"
    content = "datetime"

    def __init__(self, kind: type[datetime] | type[date] | type[time] = datetime) -> None:
        self._kind = kind

    def facts(self) -> dict[str, Any]:
        return {} if self._kind is datetime else {FORMAT: self._kind.__name__}

    def from_element(self, element: Any) -> Any:
        return self.from_json(as_text(element))

    def from_json(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise TypeError(f"takes an ISO 8601 text, got {brief(value)}")
        try:
            return self._kind.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"not an ISO 8601 {self._kind.__name__} ({error})") from None

    def element(self, value: Any) -> str:
        if isinstance(value, np.datetime64):
            value = value.astype("M8[D]" if self._kind is date else "M8[us]").item()
        is_missing = value != value  # NaT of pandas is a datetime
        if (
            is_missing
            or not isinstance(value, self._kind)
            or (self._kind is date and isinstance(value, datetime))
        ):
            raise TypeError(f"takes a {self._kind.__name__}, got {brief(value)}")
        return value.isoformat()


def _plain(value: Any) -> Any:
    """A number of NumPy, the only one of an array, or one of a subclass as Python's. A masked one is NaN."""
    if hasattr(value, "detach"):
        value = as_array(value)
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
        if np.ma.is_masked(value):
            return math.nan
        return float(value) if isinstance(value, np.longdouble) else value.item()
    if isinstance(value, int) and type(value) is not bool:
        return int(value)  # of an IntEnum
    return value


def loaded(element: Any) -> Any:
    """The JSON value in an element of BYTES. Raises TypeError and ValueError."""
    try:
        return decode(as_text(element))
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error})") from None


def from_base64(element: Any) -> bytes:
    """The bytes of a base64 text, which may have line breaks or the URL-safe alphabet, or be in a data URL.

    Raises TypeError and ValueError.
    """
    if not isinstance(element, str | bytes | bytearray | memoryview):
        if (content := getattr(element, "content", None)) is not None:  # an upload
            return bytes(content)
        raise TypeError(f"takes base64 text, got {brief(element)}")
    try:
        return base64.b64decode(element, validate=True)
    except (binascii.Error, ValueError) as error:
        text = _DATA_URL.sub(b"", element.encode() if isinstance(element, str) else bytes(element), 1)
        try:
            return base64.b64decode(text.translate(_STANDARD, b" \t\r\n"), validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"not valid base64 ({error})") from None


_DATA_URL = re.compile(rb"^data:[^,]{0,256};base64,", re.I)
_STANDARD = bytes.maketrans(b"-_", b"+/")
"""From the URL-safe alphabet (RFC 4648 section 5)."""


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
