"""Single values: strings, bytes, numbers, booleans and times."""

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
from ...types.conversion import array_from_values, as_array, to_integer
from ...types.datatypes import DTYPES, FLOATS, INTEGERS
from ...types.forms import KINDS, LARGEST, LEAST
from ...types.json_encoding import decode
from .base import FORMAT, SingleValue, format_brief, get_single


def as_text(element: Any) -> str:
    """Decode a BYTES element to a string. Raises TypeError or ValueError."""
    if isinstance(element, str):
        return element
    if element is None:
        raise TypeError("takes text, got null")
    try:
        return str(element, "utf-8")
    except TypeError:
        raise TypeError(f"takes text, got {format_brief(element)}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text ({error})") from None


class Text(SingleValue):
    """Encodes `str` as one BYTES element in UTF-8."""

    datatype = "BYTES"
    content = "str"

    from_element = staticmethod(as_text)
    from_json = staticmethod(as_text)  # type: ignore[assignment]

    def read(self, tensor: RequestInput | ResponseOutput) -> str:
        self._expect(tensor)
        return as_text(get_single(tensor))

    def element(self, value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"takes text, got {format_brief(value)}")
        return value

    def convert_at_once(self, values: Sequence[Any]) -> list[Any] | None:
        return [*values] if {*map(type, values)} == {str} else None

    def to_json(self, value: Any) -> Any:
        return value


class Binary(SingleValue):
    """Encodes `bytes` as one BYTES element (base64 in JSON)."""

    datatype = "BYTES"
    content = "base64"

    def reader(self, tensor: RequestInput | ResponseOutput) -> Callable[[Any], Any]:
        self._expect(tensor)
        parameters = tensor.parameters
        if parameters is not None and parameters.content_type == "base64":
            return from_base64
        return _bytes_of_output if isinstance(tensor, ResponseOutput) else to_bytes

    def element(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise TypeError(f"takes bytes, got {format_brief(value)}")
        return bytes(value)

    def from_json(self, value: Any) -> bytes:
        return to_bytes(value)

    def to_json(self, value: Any) -> str:
        return base64.b64encode(value).decode()


def to_bytes(element: Any) -> bytes:
    """Return bytes unchanged, and decode a base64 string. Raises TypeError or ValueError."""
    if isinstance(element, bytes | bytearray | memoryview):
        return bytes(element)
    return from_base64(element)


def _bytes_of_output(element: Any) -> bytes:
    """Decode an element of an output without the content type `base64`. Strings become UTF-8 bytes."""
    return element.encode() if isinstance(element, str) else bytes(memoryview(element))


class Number(SingleValue):
    """Encodes `int`, `float` or a NumPy number as one element of a numeric datatype."""

    def __init__(self, datatype: str) -> None:
        self.datatype = datatype
        self._integer = datatype in INTEGERS
        self._plain = KINDS.get(datatype)

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        if tensor.datatype != self.datatype:
            self._expect(tensor)
        return self.from_json(get_single(tensor))

    def read_all(self, tensor: RequestInput | ResponseOutput) -> list[Any]:
        self._expect(tensor)
        numbers: list[Any] = tensor.data.to_numpy(self.datatype).reshape(-1).tolist()
        return numbers

    def element(self, value: Any) -> Any:
        return self._check_range(_unwrap_number(value))

    def convert_at_once(self, values: Sequence[Any]) -> list[Any] | None:
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
        except (ValueError, OverflowError):  # converting them one by one names the invalid number
            return None
        return numbers

    def from_json(self, value: Any) -> Any:
        if type(value) is self._plain and (not self._integer or LEAST <= value <= LARGEST):
            return value
        if value is None and not self._integer:
            return math.nan  # JSON cannot represent NaN, so both directions use null
        return self._check_range(value)

    from_element = from_json

    def _expect(self, tensor: RequestInput | ResponseOutput) -> None:
        if tensor.datatype != self.datatype and not (
            tensor.datatype in INTEGERS or (tensor.datatype in FLOATS and not self._integer)
        ):
            raise ValueError(f"takes {self.datatype}, got {tensor.datatype}")

    def _check_range(self, value: Any) -> Any:
        """Return the number if it is within the range of the datatype. Raises TypeError or ValueError."""
        if isinstance(value, bool) or not isinstance(value, int if self._integer else int | float):
            if self._integer and isinstance(value, float) and value.is_integer():
                value = to_integer(value, self.datatype)
            else:
                wanted = "an integer" if self._integer else "a number"
                raise TypeError(f"takes {wanted}, got {format_brief(value)}")
        if not self._integer:
            try:
                value = float(value)
            except OverflowError:
                raise ValueError(f"{format_brief(value)} is out of range for {self.datatype}") from None
        if self.datatype != "FP64":
            array_from_values([value], self.datatype)
        return value


class Boolean(SingleValue):
    """Encodes `bool` as one BOOL element."""

    datatype = "BOOL"

    def from_element(self, element: Any) -> bool:
        if element is None:
            raise TypeError("takes true or false, got null")
        return bool(element)

    def element(self, value: Any) -> bool:
        value = _unwrap_number(value)
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"takes true or false, got {format_brief(value)}")
        return bool(value)

    def convert_at_once(self, values: Sequence[Any]) -> list[Any] | None:
        return [*values] if {*map(type, values)} == {bool} else None

    def to_json(self, value: Any) -> Any:
        return bool(value)


class Time(SingleValue):
    """Encodes `datetime`, `date` or `time` as one BYTES element in ISO 8601 format."""

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
            raise TypeError(f"takes an ISO 8601 text, got {format_brief(value)}")
        try:
            return self._kind.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"not an ISO 8601 {self._kind.__name__} ({error})") from None

    def element(self, value: Any) -> str:
        if isinstance(value, np.datetime64):
            value = value.astype("M8[D]" if self._kind is date else "M8[us]").item()
        is_missing = value != value  # the NaT of pandas is a datetime
        if (
            is_missing
            or not isinstance(value, self._kind)
            or (self._kind is date and isinstance(value, datetime))
        ):
            raise TypeError(f"takes a {self._kind.__name__}, got {format_brief(value)}")
        return value.isoformat()


def _unwrap_number(value: Any) -> Any:
    """Convert a NumPy number, a one-element array or an `int` subclass to a Python number.

    A masked number becomes NaN.
    """
    if hasattr(value, "detach"):
        value = as_array(value)
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.size == 1):
        if np.ma.is_masked(value):
            return math.nan
        return float(value) if isinstance(value, np.longdouble) else value.item()
    if isinstance(value, int) and type(value) is not bool:
        return int(value)  # for example a member of an IntEnum
    return value


def parse_json(element: Any) -> Any:
    """Parse the JSON in a BYTES element. Raises TypeError or ValueError."""
    try:
        return decode(as_text(element))
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error})") from None


def from_base64(element: Any) -> bytes:
    """Decode base64 with optional line breaks, in the standard or URL-safe alphabet, or in a data URL.

    Raises TypeError or ValueError.
    """
    if not isinstance(element, str | bytes | bytearray | memoryview):
        if (content := getattr(element, "content", None)) is not None:  # an upload
            return bytes(content)
        raise TypeError(f"takes base64 text, got {format_brief(element)}")
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
"""Translates the URL-safe alphabet (RFC 4648 section 5) to the standard one."""


def find_number(dtype: type[Any]) -> Number | None:
    """Return the `Number` for a NumPy number type. Returns None if it has no datatype."""
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        return None
    for name, known in DTYPES.items():
        if name != "BF16" and known == wanted and wanted.kind in "iuf":
            return Number(name)
    return None
