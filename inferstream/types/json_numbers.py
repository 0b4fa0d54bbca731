"""Long JSON lists of numbers, which are parsed in pieces straight into an array once their datatype is known.

As a list of Python numbers, a JSON tensor of shape [1, 3, 224, 224] would take 76 ms and 13 times its size in
memory.
"""

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from math import prod
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt
import orjson
from simdjson import Array, Parser

from .conversion import MAX_RANK, array_from_values
from .datatypes import DTYPES
from .json_encoding import decode

PIECE = 128 * 1024
"""The number of bytes of JSON parsed at a time. The parser uses about twelve times as much memory."""

MANY_DIGITS = re.compile(rb"[0-9]{19}")
"""Matches the digits of integers that may exceed 64 bits, which orjson would turn into floats."""

NOT_NUMBERS = ("BOOL", "BYTES")
"""Datatypes whose values are not numbers."""

_WITHIN = bytes(set(range(256)) - set(b"[],"))
_SPACES = bytes.maketrans(b"[]", b"  ")
_WHITESPACE = b" \t\r\n"
_EMPTY = re.compile(rb"\[[ \t\r\n]*+\]")
_WIDE: dict[str, Any] = {"d": np.float64, "i": np.int64, "u": np.uint64}


class _Parsers(threading.local):
    """One parser per thread, because new buffers would double the parsing time."""

    def __init__(self) -> None:
        self.parser = Parser()


_own = _Parsers()


class Malformed(ValueError):
    """The JSON of a list is invalid."""


class NumbersText:
    """Unparsed JSON of a list of numbers, or of nested lists of equal lengths.

    Its numbers are not checked.
    """

    __slots__ = ("_shape", "text")

    def __init__(self, text: bytes, shape: Sequence[int] | None = None) -> None:
        """`shape` is the shape of nested lists, and None for a flat list."""
        self.text = text
        self._shape = shape

    @classmethod
    def of(cls, text: bytes) -> Self | None:
        """Wrap the JSON `text`. Returns None if lists are ragged, empty, unclosed or nested too deeply."""
        if text.find(b"[", 1) < 0:
            return cls(text) if text.find(b"]") == len(text) - 1 and _EMPTY.match(text) is None else None
        shape = _shape(text.translate(None, _WITHIN))
        if shape is None or (shape[-1] == 1 and _EMPTY.search(text)):
            return None
        return cls(text, shape)

    @property
    def literals(self) -> bool:
        """Whether the list contains null, true or false."""
        return b"u" in self.text or b"l" in self.text

    @property
    def begins_whole(self) -> bool:
        """Whether the first number has neither a fraction nor an exponent."""
        first, _, _ = self.text[:64].lstrip(b"[" + _WHITESPACE).partition(b",")
        return not set(b".eEN") & set(first)

    @property
    def whole(self) -> bool:
        """Whether all numbers have neither a fraction nor an exponent."""
        return not any(mark in self.text for mark in (b".", b"e", b"E", b"N"))

    @property
    def shape(self) -> list[int]:
        if self._shape is None:
            self._shape = [int(np.count_nonzero(np.frombuffer(self.text, np.uint8) == ord(","))) + 1]
        return list(self._shape)

    def array(self, datatype: str) -> npt.NDArray[Any]:
        """Parse into a flat array of a numeric datatype.

        Raises Malformed for invalid JSON, or ValueError if a number does not fit.
        """
        dtype = DTYPES[datatype]
        if len(self.text) <= PIECE:
            return _parse_list(self.text, datatype, dtype)
        values = np.empty(prod(self.shape), dtype)
        filled = 0
        for piece in _pieces(self.text):
            part = _parse_list(piece, datatype, dtype)
            if filled + part.size > values.size:
                break
            values[filled : filled + part.size] = part
            filled += part.size
        if filled != values.size:
            raise Malformed("a number is missing between two commas")
        return values

    def values(self) -> Any:
        """Parse into Python objects, with the same nesting. Raises Malformed for invalid JSON."""
        try:
            return (decode if MANY_DIGITS.search(self.text) else orjson.loads)(self.text)
        except orjson.JSONDecodeError as error:
            reason = str(error)
        if b"N" in self.text or b"I" in self.text:  # NaN and Infinity, which orjson rejects
            with suppress(ValueError):
                return json.loads(self.text)
        raise Malformed(reason)


def _pieces(text: bytes) -> Iterator[bytes]:
    """Yield the numbers as several short JSON lists."""
    start, end = 1, len(text) - 1
    if text.find(b"[", 1) > 0:
        text = text.translate(_SPACES)  # a bracket between two numbers must still separate them
    while start < end:
        comma = text.find(b",", start + PIECE)
        stop = end if comma < 0 else comma
        yield b"[%b]" % text[start:stop]
        start = stop + 1


def _parse_list(text: bytes, datatype: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Parse one list. Values that simdjson cannot parse exactly are parsed as Python objects."""
    kind: Literal["d", "i", "u"] = "d" if dtype.kind == "f" else "u" if datatype == "UINT64" else "i"
    try:
        wide = np.frombuffer(cast(Array, _own.parser.parse(text)).as_buffer(of_type=kind), _WIDE[kind])
        if kind == "d":
            with np.errstate(over="raise"):
                return wide.astype(dtype, copy=False)
        limits = np.iinfo(dtype)
        if not wide.size or (limits.min <= wide.min() and wide.max() <= limits.max):
            return wide.astype(dtype, copy=False)
    except (ValueError, TypeError, RuntimeError, FloatingPointError):
        pass
    return array_from_values(NumbersText(text).values(), datatype)


def _shape(brackets: bytes) -> list[int] | None:
    """Return the shape of nested lists, from their brackets and commas.

    Returns None if they are ragged or nested too deeply.
    """
    depth = len(brackets) - len(brackets.lstrip(b"["))
    end = brackets.find(b"]")
    if end < 0 or depth > MAX_RANK or brackets.find(b"[", depth, end) > 0:
        return None
    shape = [end - depth + 1]
    unit = brackets[depth - 1 : end + 1]
    for outer in range(2, depth + 1):
        end = brackets.find(b"]" * outer)
        size, rest = divmod(end + 2 * outer - depth - 1, len(unit) + 1)
        if end < 0 or rest or not size:
            return None
        shape.append(size)
        unit = b"[%b]" % b",".join([unit] * size)
    return shape[::-1] if unit == brackets else None
