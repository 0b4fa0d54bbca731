"""Checks JSON for exceeded limits, piece by piece before parsing, and for duplicate keys, which parsers hide.

Limits are checked before parsing because parsers hold the GIL and create objects.
"""

import json
import sys
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InvalidRequest, PayloadTooLarge
from ..types import Parameters
from ..types.json_numbers import MANY_DIGITS

PIECE = 256 * 1024
"""The number of bytes counted at a time, which takes at most two milliseconds."""

COUNTED_EXACTLY = 32 * 1024
"""The size, in bytes, above which colons are counted exactly before the JSON is parsed again."""

NAMED = 2**20
"""The maximum size, in bytes, of JSON that is searched for the duplicate key, which takes 60 ms per MB."""

_COUNTED = b'"[]{}tfn'
_QUOTE = ord('"')
_COMMA = ord(",")
STEPS = np.zeros(256, np.int8)
"""The change in depth for each byte outside strings."""
STEPS[list(b"[{")] = 1
STEPS[list(b"]}")] = -1
OBJECT = 8
"""The number of values that an object counts as. It takes as much memory and time as eight strings."""

_VALUES = np.zeros(256, np.uint8)
_VALUES[list(b"[tfn")] = 1
_VALUES[ord("{")] = OBJECT


class JsonLimits:
    """The largest JSON that the server parses.

    `size` is in bytes, `depth` in levels of lists and objects. `values` counts keys, strings, lists and
    literals as one each and objects as `OBJECT`. Numbers in a body do not count, because they may become
    arrays. Numbers in JSON strings within a body do count.
    """

    __slots__ = ("_small", "depth", "size", "values")

    def __init__(self, size: int, depth: int, values: int) -> None:
        self.size = size
        self.depth = depth
        self.values = values
        self._small = min(PIECE, size, 2 * values // OBJECT)  # The smallest object, `{}`, has two bytes.

    def check(self, text: bytes) -> None:
        """Raise PayloadTooLarge or InvalidRequest for JSON beyond a limit."""
        if len(text) <= self._small and text.count(b"[") + text.count(b"{") <= self.depth:
            return  # `allow`, inlined for speed
        counter = JsonCounter(self)
        for start in range(0, len(text), PIECE):
            counter.add(text[start : start + PIECE])

    def check_text(self, text: str, name: str) -> None:
        """Check JSON that is the value of a field. Raises the errors of `TextCounter`."""
        if not self.allow(text.encode(errors="replace")):
            TextCounter(self).add_text(text, name)

    def allow(self, text: bytes) -> bool:
        """Whether a quick check proves that JSON is within the limits."""
        return len(text) <= self._small and text.count(b"[") + text.count(b"{") <= self.depth

    def expect(self, size: int) -> None:
        """Raise PayloadTooLarge if `size` bytes are too large."""
        if size > self.size:
            raise PayloadTooLarge(
                f"The JSON is larger than the {self.size} bytes allowed (setting max_json_bytes)."
            )


UNLIMITED = JsonLimits(sys.maxsize, sys.maxsize, sys.maxsize)
"""The limits of a model that clients cannot call."""


class JsonCounter:
    """Counts the values and the depth of JSON as it arrives. Bytes after the first `length` are ignored."""

    counted = "keys, strings, objects, lists and literals"
    dropped = bytes(set(range(256)) - set(_COUNTED))
    """Bytes that are not counted."""

    __slots__ = ("_commas", "_depth", "_escape", "_length", "_limits", "_quoted", "_size", "_values")

    def __init__(self, limits: JsonLimits, length: int | None = None) -> None:
        self._limits = limits
        self._length = length
        self._size = self._depth = self._values = self._commas = 0
        self._quoted = False
        self._escape = b""
        """A backslash at the end of the last piece, which escapes the first byte of the next."""

    def add(self, piece: bytes) -> None:
        """Count the next bytes. Raises PayloadTooLarge or InvalidRequest as soon as a limit is exceeded."""
        if self._length is not None:
            piece = piece[: max(self._length - self._size, 0)]
        self._size += len(piece)
        self._limits.expect(self._size)
        if b"Infinity" in piece:  # a number, whose letters would count as literals
            piece = piece.replace(b"Infinity", b"")
        marks, strings = self.strip_strings(piece, self.dropped)
        self._values += strings
        if marks.size:
            self._values += int(_VALUES[marks].sum(dtype=np.int64))
            self._commas += int(np.count_nonzero(marks == _COMMA))
            depths = np.cumsum(STEPS[marks], dtype=np.int32)
            deepest = self._depth + int(depths.max())
            self._depth += int(depths[-1])
            if deepest > self._limits.depth:
                raise InvalidRequest(
                    f"The JSON is nested deeper than {self._limits.depth} levels (setting max_json_depth)."
                )
        if max(self._values, self._commas) > self._limits.values:
            raise InvalidRequest(
                f"The JSON holds more than {self._limits.values} {self.counted} (setting max_json_values)."
            )

    def strip_strings(self, piece: bytes, dropped: bytes) -> tuple[npt.NDArray[np.uint8], int]:
        """Return the bytes outside strings, without `dropped`, and the number of strings that start in it."""
        if self._escape or b"\\" in piece:
            piece = self._unescape(self._escape + piece)
        marks = np.frombuffer(piece.translate(None, dropped), np.uint8)
        quotes = marks == _QUOTE
        if not self._quoted and not quotes.any():
            return marks, 0
        quoted = np.bitwise_xor.accumulate(quotes) ^ self._quoted
        self._quoted = bool(quoted[-1]) if quoted.size else self._quoted
        return marks[~(quotes | quoted)], int(np.count_nonzero(quotes & quoted))

    def _unescape(self, piece: bytes) -> bytes:
        """Return a piece without escaped backslashes and quotation marks."""
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        self._escape = b"\\" * (backslashes & 1)
        piece = piece[: len(piece) - len(self._escape)]
        return piece.replace(b"\\\\", b"").replace(b'\\"', b"")


class TextCounter(JsonCounter):
    """Counts all JSON within one request that is a field value or a tensor element.

    Numbers are also counted, by their commas, because each becomes a Python object. `elements` is the number
    of elements without JSON, which is added to the count.
    """

    __slots__ = ()

    counted = "keys, strings, objects, lists, literals and numbers"
    dropped = bytes(set(JsonCounter.dropped) - {_COMMA})

    def __init__(self, limits: JsonLimits, elements: int = 0) -> None:
        super().__init__(limits)
        self._values = self._commas = elements

    def add_text(self, text: str | bytes, name: str) -> None:
        """Count JSON in a field or tensor.

        Raises PayloadTooLarge or InvalidRequest with `name` as a prefix.
        """
        self._depth, self._quoted, self._escape = 0, False, b""
        try:
            for start in range(0, len(text), PIECE):
                piece = text[start : start + PIECE]
                self.add(piece.encode(errors="replace") if isinstance(piece, str) else piece)
        except (InvalidRequest, PayloadTooLarge) as error:
            raise type(error)(f"{name}: {error.message[:1].lower()}{error.message[1:]}") from None


def count_outside_strings(text: bytes, mark: bytes) -> int:
    """Return the number of occurrences of a byte outside strings."""
    counter = JsonCounter(JsonLimits(len(text), 0, 0))
    dropped = bytes(set(range(256)) - {_QUOTE, *mark})
    pieces = (text[start : start + PIECE] for start in range(0, len(text), PIECE))
    return sum(counter.strip_strings(piece, dropped)[0].size for piece in pieces)


def count_keys(value: Any) -> int:
    """Return the number of keys of all objects in a JSON value."""
    keys, level = 0, [value]
    while level:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                keys += len(each)
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level = inner
    return keys


def has_keys(text: bytes, expected: int) -> bool:
    """Whether the number of colons proves that a document has `expected` keys.

    Each key has a colon. If the number of colons equals `expected`, there are no other keys. The same applies
    to colons directly after a quotation mark, if no colon follows whitespace.
    """
    if text.count(b":") == expected:
        return True
    if text.count(b'":') != expected:
        return False
    # Written out, because a generator takes six times as long.
    return not (b" :" in text or b"\t:" in text or b"\n:" in text or b"\r:" in text)


def refuse_duplicate_keys(text: bytes, expected: int) -> None:
    """Raise InvalidRequest if an object in the document has a duplicate key.

    `expected` is the number of keys after parsing, in which orjson keeps the last of two equal keys. If the
    number of colons is inconclusive, for example because a string contains one, the JSON is parsed again,
    which is slow.
    """
    if has_keys(text, expected) or (
        len(text) > COUNTED_EXACTLY and count_outside_strings(text, b":") == expected
    ):
        return
    if len(text) > NAMED:
        raise InvalidRequest("A key of an object is given twice.")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique_keys = dict(pairs)
        if len(unique_keys) != len(pairs):
            names = Counter(name for name, _ in pairs)
            raise InvalidRequest(f'key "{names.most_common(1)[0][0]}" is given twice')
        return unique_keys

    try:
        json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise InvalidRequest("The body is nested too deeply.") from None


def reject_rounded_integers(parameters: Parameters, text: bytes, owner: str = "") -> None:
    """Raise InvalidRequest for an integer beyond 64 bits, which the parser of `text` has turned into a float.

    `owner` is the prefix of the message, such as `input "x": `.
    """
    for name, value in parameters.items():
        if type(value) is float and abs(value) >= 2**63 and MANY_DIGITS.search(text):
            raise InvalidRequest(f'{owner}parameter "{name}": an integer beyond 64 bits is out of range')
