"""Parses large JSON in pieces, because a parser holds the GIL until it is done."""

import gc
import threading
from collections.abc import Callable
from secrets import token_hex
from typing import Any

import numpy as np
import orjson

from ..errors import InvalidRequest
from .json_checks import STEPS, JsonCounter, JsonLimits

PIECE = 512 * 1024
"""The number of bytes parsed at a time, which takes at most ten milliseconds."""

_CUT = f"cut {token_hex(16)}".encode()
"""The key or item that represents the members in other pieces. It is random, so clients cannot forge it."""

_LIST = ord("[")
_BEFORE = {_LIST: b'["%b",' % _CUT, ord("{"): b'{"%b":0,' % _CUT}
_AROUND = {_LIST: b"[", ord("{"): b'{"%b":' % _CUT}
_LAST = {_LIST: b',"%b last"' % _CUT, ord("{"): b',"%b last":0' % _CUT}
_CLOSED = {_LIST: b"]", ord("{"): b"}"}
_FIRST_KEY = _CUT.decode()
_LAST_KEY = f"{_FIRST_KEY} last"

_DROPPED = bytes(set(range(256)) - set(b'"[]{}'))
_UNLIMITED = JsonLimits(0, 0, 0)
"""The limits of a counter that only finds brackets outside strings. They are never checked."""

_collector = threading.Lock()
"""Held while garbage collection is disabled.

Parsers hold the GIL anyway, so the lock adds no delay.
"""


def loads(text: bytes, parser: Callable[[bytes], Any] = orjson.loads) -> Any:
    """Parse a document. Raises the parser's error, or InvalidRequest for a key that is repeated at a cut."""
    if len(text) <= PIECE:
        return _parse(text, parser)
    document: Any = None
    start, stack = 0, b""
    path: list[Any] = []
    """The containers of the document that are open at `start`. `stack` has their brackets."""
    while True:
        end, following = _cut(text, start, stack)
        before = b"".join(_AROUND[bracket] for bracket in stack[:-1]) + (_BEFORE[stack[-1]] if stack else b"")
        after = _LAST[following[-1]] if following else b""
        after += b"".join(_CLOSED[bracket] for bracket in reversed(following))
        try:
            piece = _parse(before + text[start:end] + after, parser)
        except orjson.JSONDecodeError as error:
            raise _whole_error(error, text, start, len(before)) from None
        left_open = _pop_open_containers(piece, len(following))
        if not path:
            document = piece
        path = _join(path, piece, left_open)
        if not following:
            return document
        start, stack = end + 1, following


def _whole_error(
    error: orjson.JSONDecodeError, text: bytes, start: int, before: int
) -> orjson.JSONDecodeError:
    """Convert the error of a piece to an error of the whole document.

    The piece starts at `start`, after `before` additional bytes.
    """
    try:
        whole = text.decode()
    except UnicodeDecodeError:
        return orjson.JSONDecodeError("str is not valid UTF-8: surrogates not allowed", "", 0)
    return orjson.JSONDecodeError(error.msg, whole, len(text[:start].decode()) + error.pos - before)


def _parse(text: bytes, parser: Callable[[bytes], Any]) -> Any:
    """Parse a document with garbage collection disabled.

    Otherwise, collections would take five times as long as the parser.
    """
    with _collector:  # otherwise a second thread would find the collector disabled and leave it that way
        collects = gc.isenabled()
        gc.disable()
        try:
            return parser(text)
        finally:
            if collects:
                gc.enable()


def _cut(text: bytes, start: int, stack: bytes) -> tuple[int, bytes]:
    """Return the position of a comma between members in the next piece, and the brackets that are open there.

    At the end of the document, no bracket is open.
    """
    size = PIECE
    while start + size < len(text):
        if text.find(b",", start, start + size) < 0:  # probably the base64 of a file
            size *= 2
            continue
        piece = text[start : start + size]
        if b"\\" in piece:  # a backslash at the end is in a string, where commas do not count
            piece = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        comma = _last_comma(piece)
        if comma >= 0:
            following = _get_open_brackets(stack, piece[:comma])
            return (start + comma, following) if following else (len(text), b"")
        size *= 2
    return len(text), b""


def _last_comma(piece: bytes) -> int:
    """Return the position of the last comma outside strings, or -1. The piece must start outside a string."""
    end, quotes = len(piece), piece.count(b'"')
    while (comma := piece.rfind(b",", 0, end)) >= 0:
        quotes -= piece.count(b'"', comma, end)
        if not quotes & 1:
            break
        end = piece.rfind(b'"', 0, comma)  # the start of the string that contains the comma
        quotes -= 1
    return comma


def _get_open_brackets(stack: bytes, piece: bytes) -> bytes:
    """Return the brackets that are open after a piece. Returns no brackets if the document ends in it."""
    marks, _ = JsonCounter(_UNLIMITED).strip_strings(piece, _DROPPED)
    if not marks.size:
        return stack
    steps = STEPS[marks]
    depths = np.cumsum(steps, dtype=np.int32) + len(stack)
    lowest = np.minimum.accumulate(depths[::-1])[::-1]  # from each mark to the last
    if lowest[0] < 1:
        return b""
    return stack[: int(lowest[0])] + bytes(marks[(steps > 0) & (depths == lowest)])


def _pop_open_containers(piece: Any, depth: int) -> list[Any]:
    """Return the containers of a piece that continue in the next one, after removing the marker in them.

    Raises InvalidRequest for a key that is repeated at the cut.
    """
    containers: list[Any] = []
    inner = piece
    while len(containers) < depth and inner and type(inner) in (dict, list):
        containers.append(inner)
        inner = inner[-1] if type(inner) is list else inner[next(reversed(inner))]
    if depth and (len(containers) < depth or not _pop_marker(containers[-1])):
        raise InvalidRequest("A key of an object is given twice.")  # a repeated key keeps its first position
    return containers


def _pop_marker(container: Any) -> bool:
    if type(container) is dict:
        return container.pop(_LAST_KEY, None) is not None
    return bool(container.pop() == _LAST_KEY)


def _join(path: list[Any], piece: Any, left_open: list[Any]) -> list[Any]:
    """Add the contents of the next piece to the containers in `path`.

    Returns the containers that continue after it.
    """
    same = 0
    for level, container in enumerate(path):
        if same == level < len(left_open) and left_open[level] is piece:
            same += 1
        if type(container) is list:
            inner = piece[0]
            container += piece[1:]
        else:
            inner = piece.pop(_FIRST_KEY)
            container.update(piece)
        piece = inner
    return path[:same] + left_open[same:]
