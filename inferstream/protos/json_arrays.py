"""Finds long lists of numbers in JSON, and parses everything else without them."""

import re
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import orjson

from ..errors import InvalidRequest
from ..types.json_encoding import decode
from ..types.json_numbers import MANY_DIGITS, Malformed, NumbersText
from .json_checks import count_outside_strings
from .json_pieces import loads

LARGE = 32 * 1024
"""The minimum size, in bytes, of JSON that is searched for long lists of numbers."""

LONG = 4096
"""The minimum length, in bytes, of a list that becomes an array."""

MAX_PLAIN = 4 * 2**20
"""The maximum length, in bytes, of a number list that becomes a Python list, which may be 13 times larger."""

MAX_COMMAS = 4_000_000
"""The maximum number of values outside long lists, if the JSON without them is larger than `MAX_PLAIN`.

Each number is an object of 32 bytes.
"""

FIELDS = ("id", "parameters", "inputs", "outputs", "part", "cancel")
"""Fields of a V2 request, including WebSocket messages."""

_LIST = re.compile(rb":[ \t\r\n]*+\[")
_SECRET = f"numbers {token_hex(16)} "
"""The prefix of the strings that replace lists. It is random, so clients cannot forge it."""

_SECRET_BYTES = _SECRET.encode()

_HOLDERS = (dict, list)
_WHITESPACE = b" \t\r\n"


def parse(text: bytes, tensors: bool = False, exact: bool = False) -> tuple[Any, bytes]:
    """Parse JSON. Returns the document, and its JSON with strings instead of long lists of numbers.

    If `tensors` is set, these lists are `NumbersText` in the document, both as tensor `data` and as values of
    flat JSON. If `exact` is set, integers beyond 64 bits are exact unless the JSON is large. Raises
    orjson.JSONDecodeError, or InvalidRequest for too many numbers.
    """
    if len(text) < LARGE:
        return (decode if exact else orjson.loads)(text), text
    rest, numbers = cut(text)
    if len(rest) > MAX_PLAIN and count_outside_strings(rest, b",") > MAX_COMMAS:
        raise InvalidRequest(f"More than {MAX_COMMAS} values are in lists that are no data of a tensor.")
    try:
        document = loads(rest)
    except orjson.JSONDecodeError:
        if len(text) > MAX_PLAIN:
            raise
        return loads(text), text  # for an error with the right position
    if numbers:
        _restore(document, numbers, tensors)
    return document, rest


def load_exactly(document: dict[str, Any], text: bytes) -> dict[str, Any]:
    """Parse JSON again, so that integers beyond 64 bits are exact instead of floats.

    Large JSON is only parsed again if it may contain such integers. Its long lists of numbers are left
    unchanged.
    """
    if len(text) >= LARGE and MANY_DIGITS.search(text) is None:
        return document
    try:
        exact = decode(text)
    except orjson.JSONDecodeError:  # NaN is not valid JSON
        return document
    if _SECRET_BYTES in text:
        _copy_numbers(document, exact)
    return {name: exact.get(name, value) for name, value in document.items()}


def _copy_numbers(source: Any, target: Any) -> None:
    """Replace the strings in `target` with the long lists of numbers at the same positions in `source`."""
    level = [(source, target)]
    while level:
        holder, copy = level.pop()
        for name, value in copy.items() if type(copy) is dict else enumerate(copy):
            if type(value) in _HOLDERS:
                level.append((holder[name], value))
            elif type(value) is str and value.startswith(_SECRET):
                copy[name] = holder[name]


def _restore(document: Any, numbers: dict[str, NumbersText], tensors: bool) -> None:
    """Replace the strings in the document with the lists of numbers that they represent."""
    flat, items = None, frozenset[int]()
    if tensors and type(document) is dict:
        flat = document
        if type(inputs := document.get("inputs")) is list:
            items = frozenset(map(id, inputs))
    level: list[Any] = [document]
    while level:
        holder = level.pop()
        members = holder.items() if type(holder) is dict else enumerate(holder)
        for name, value in members:
            if type(value) in _HOLDERS:
                level.append(value)
            elif type(value) is str and value in numbers:
                whole = name not in FIELDS if holder is flat else name == "data" and id(holder) in items
                holder[name] = numbers[value] if whole else to_objects(numbers[value], str(name))


def to_objects(numbers: NumbersText, name: str) -> Any:
    """Return the numbers as Python objects, for a field that does not accept an array.

    Raises InvalidRequest.
    """
    if len(numbers.text) > MAX_PLAIN:
        raise InvalidRequest(
            f'"{name[:40]}" holds {len(numbers.text)} bytes of numbers; {MAX_PLAIN} are allowed where no tensor is'
        )
    try:
        return numbers.values()
    except Malformed as error:
        raise InvalidRequest(f'"{name[:40]}" is not valid JSON: {error}') from None


def cut(text: bytes) -> tuple[bytes, dict[str, NumbersText]]:
    """Replace long number lists in JSON with strings. Returns the JSON, and the lists by these strings."""
    kept: list[bytes] = []
    lists: list[NumbersText] = []
    position = 0
    for start, end, numbers in _spans(text):
        kept.append(text[position:start])
        lists.append(numbers)
        position = end
    if not lists:
        return text, {}
    kept.append(text[position:])
    named = {f"{_SECRET}{index}": numbers for index, numbers in enumerate(lists)}
    parts = [part + b'"%b"' % name.encode() for part, name in zip(kept, named, strict=False)]
    return b"".join((*parts, kept[-1])), named


def _spans(text: bytes) -> Iterator[tuple[int, int, NumbersText]]:
    """Yield the start, the end and the numbers of each long list, in linear time."""
    position = counted = quote = brace = quotes = 0
    while (match := _LIST.search(text, position)) is not None:
        start = position = match.end() - 1
        if 0 <= quote < start:
            quote = text.find(b'"', start)
        if 0 <= brace < start:
            brace = text.find(b"}", start)
        stop = min(len(text) if quote < 0 else quote, len(text) if brace < 0 else brace)
        if stop - start < LONG:
            continue
        quotes += _count_quotes(text[counted:start])
        position = stop
        counted = (
            start if quotes & 1 else stop
        )  # a backslash in this text may escape the quotation mark at that position
        end = text.rfind(b"]", start, stop) + 1
        if quotes & 1 or not end or text[end:stop].strip(_WHITESPACE) not in (b"", b","):
            continue
        numbers = NumbersText.of(text[start:end])
        if numbers is not None:
            yield start, end, numbers


def _count_quotes(text: bytes) -> int:
    """Return the number of unescaped quotation marks."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return text.count(b'"')
