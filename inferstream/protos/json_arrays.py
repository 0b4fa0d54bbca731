"""Finds long lists of numbers in JSON, and parses the rest without them."""

import re
from collections.abc import Iterator
from secrets import token_hex
from typing import Any

import orjson

from ..errors import InvalidRequest
from ..types.json_encoding import decode
from ..types.json_numbers import MANY_DIGITS, Malformed, NumbersText
from .json_checks import outside_strings
from .json_pieces import loads

LARGE = 32 * 1024
"""Size of JSON in bytes from which it may hold long lists of numbers."""

LONG = 4096
"""Shortest text in bytes of a list that becomes an array."""

MAX_PLAIN = 4 * 2**20
"""Longest text in bytes of a list of numbers that becomes a list of Python's, of up to 13 times its size."""

MAX_COMMAS = 4_000_000
"""Values of a larger JSON that are not in long lists of numbers. A number is an object of 32 bytes."""

FIELDS = ("id", "parameters", "inputs", "outputs", "part", "cancel")
"""Fields of a V2 request, those of a WebSocket too."""

_LIST = re.compile(rb":[ \t\r\n]*+\[")
_SECRET = f"numbers {token_hex(16)} "
"""The beginning of the strings that stand for lists. No client knows it."""

_HOLDERS = (dict, list)
_WHITESPACE = b" \t\r\n"


def parse(text: bytes, tensors: bool = False, exact: bool = False) -> tuple[Any, bytes]:
    """The document in a JSON text, and the text, in which strings stand for long lists of numbers.

    Where `tensors` are, which is as `data` and as the values of flat JSON, these lists are `NumbersText` in the
    document. If `exact`, integers beyond 64 bits are no floats in a text that is not long. Raises
    orjson.JSONDecodeError, and InvalidRequest for too many numbers.
    """
    if len(text) < LARGE:
        return (decode if exact else orjson.loads)(text), text
    rest, numbers = cut(text)
    if len(rest) > MAX_PLAIN and outside_strings(rest, b",") > MAX_COMMAS:
        raise InvalidRequest(f"More than {MAX_COMMAS} values are in lists that are no data of a tensor.")
    try:
        document = loads(rest)
    except orjson.JSONDecodeError:
        if len(text) > MAX_PLAIN:
            raise
        return loads(text), text  # its error has the right place
    if numbers:
        _restore(document, numbers, tensors)
    return document, rest


def load_exactly(document: dict[str, Any], text: bytes) -> dict[str, Any]:
    """A document of a text, which is parsed again: integers beyond 64 bits are no floats here.

    A large text is so only if it may have such integers. Its long lists of numbers stay as they are.
    """
    if len(text) >= LARGE and MANY_DIGITS.search(text) is None:
        return document
    try:
        exact = decode(text)
    except orjson.JSONDecodeError:  # of NaN
        return document
    return {
        name: value if type(value) is NumbersText else exact.get(name, value)
        for name, value in document.items()
    }


def _restore(document: Any, numbers: dict[str, NumbersText], tensors: bool) -> None:
    """Put the lists of numbers in the place of the strings that stand for them."""
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
                holder[name] = numbers[value] if whole else plain(numbers[value], str(name))


def plain(numbers: NumbersText, name: str) -> Any:
    """The numbers as Python's, at a place of this name where no array is wanted. Raises InvalidRequest."""
    if len(numbers.text) > MAX_PLAIN:
        raise InvalidRequest(
            f'"{name[:40]}" holds {len(numbers.text)} bytes of numbers; {MAX_PLAIN} are allowed where no tensor is'
        )
    try:
        return numbers.values()
    except Malformed as error:
        raise InvalidRequest(f'"{name[:40]}" is not valid JSON: {error}') from None


def cut(text: bytes) -> tuple[bytes, dict[str, NumbersText]]:
    """A JSON text with a string in place of each long list of numbers and the lists by these strings."""
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
    """The long lists of numbers that are data, and their places, in linear time."""
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
        quotes += _quotes(text[counted:start])
        position = stop
        counted = (
            start if quotes & 1 else stop
        )  # a backslash of this text may escape the quotation mark there
        end = text.rfind(b"]", start, stop) + 1
        if quotes & 1 or not end or text[end:stop].strip(_WHITESPACE) not in (b"", b","):
            continue
        numbers = NumbersText.of(text[start:end])
        if numbers is not None:
            yield start, end, numbers


def _quotes(text: bytes) -> int:
    """The number of quotation marks that begin or end strings."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return text.count(b'"')
