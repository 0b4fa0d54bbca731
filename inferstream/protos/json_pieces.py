"""Parses large JSON in pieces: a parser holds the interpreter lock, and all others wait, until it is done."""

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
"""Bytes that are parsed at once, in at most ten milliseconds."""

_CUT = f"cut {token_hex(16)}".encode()
"""The member that stands for those in other pieces. No client knows it."""

_LIST = ord("[")
_BEFORE = {_LIST: b'["%b",' % _CUT, ord("{"): b'{"%b":0,' % _CUT}
_AROUND = {_LIST: b"[", ord("{"): b'{"%b":' % _CUT}
_LAST = {_LIST: b',"%b last"' % _CUT, ord("{"): b',"%b last":0' % _CUT}
_CLOSED = {_LIST: b"]", ord("{"): b"}"}
_FIRST_KEY = _CUT.decode()
_LAST_KEY = f"{_FIRST_KEY} last"

_DROPPED = bytes(set(range(256)) - set(b'"[]{}'))
_UNLIMITED = JsonLimits(0, 0, 0)
"""For a counter that only tells what is outside of strings."""

_collector = threading.Lock()
"""Held while the garbage collector waits. A parser keeps the interpreter lock, so nobody waits longer for this one."""


def loads(text: bytes, parser: Callable[[bytes], Any] = orjson.loads) -> Any:
    """The document in a text. Raises the parser's error, and InvalidRequest for a key that is given twice at a cut."""
    if len(text) <= PIECE:
        return _parse(text, parser)
    document: Any = None
    start, stack = 0, b""
    path: list[Any] = []
    """The containers of the document that are open at `start`, whose brackets are `stack`."""
    while True:
        end, following = _cut(text, start, stack)
        before = b"".join(_AROUND[bracket] for bracket in stack[:-1]) + (_BEFORE[stack[-1]] if stack else b"")
        after = _LAST[following[-1]] if following else b""
        after += b"".join(_CLOSED[bracket] for bracket in reversed(following))
        try:
            piece = _parse(before + text[start:end] + after, parser)
        except orjson.JSONDecodeError as error:
            raise _whole_error(error, text, start, len(before)) from None
        left_open = _left_open(piece, len(following))
        if not path:
            document = piece
        path = _join(path, piece, left_open)
        if not following:
            return document
        start, stack = end + 1, following


def _whole_error(
    error: orjson.JSONDecodeError, text: bytes, start: int, before: int
) -> orjson.JSONDecodeError:
    """The error of the whole text, by that of the piece which begins at `start` behind `before` other bytes."""
    try:
        whole = text.decode()
    except UnicodeDecodeError:
        return orjson.JSONDecodeError("str is not valid UTF-8: surrogates not allowed", "", 0)
    return orjson.JSONDecodeError(error.msg, whole, len(text[:start].decode()) + error.pos - before)


def _parse(text: bytes, parser: Callable[[bytes], Any]) -> Any:
    """The document in a text. The garbage collector waits: its runs take five times as long as the parser."""
    with _collector:  # another thread that found it waiting would leave it so for good
        collects = gc.isenabled()
        gc.disable()
        try:
            return parser(text)
        finally:
            if collects:
                gc.enable()


def _cut(text: bytes, start: int, stack: bytes) -> tuple[int, bytes]:
    """A comma between members in the next piece, and the brackets open there; at the end of the text, none."""
    size = PIECE
    while start + size < len(text):
        if text.find(b",", start, start + size) < 0:  # in the base64 of a file
            size *= 2
            continue
        piece = text[start : start + size]
        if b"\\" in piece:  # a backslash that ends the piece is in a string, which has no comma
            piece = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        comma = _last_comma(piece)
        if comma >= 0:
            following = _open_after(stack, piece[:comma])
            return (start + comma, following) if following else (len(text), b"")
        size *= 2
    return len(text), b""


def _last_comma(piece: bytes) -> int:
    """The last comma outside of strings, in a piece that begins outside of them; -1 if there is none."""
    end, quotes = len(piece), piece.count(b'"')
    while (comma := piece.rfind(b",", 0, end)) >= 0:
        quotes -= piece.count(b'"', comma, end)
        if not quotes & 1:
            break
        end = piece.rfind(b'"', 0, comma)  # where the string begins that holds the comma
        quotes -= 1
    return comma


def _open_after(stack: bytes, piece: bytes) -> bytes:
    """The brackets that are open behind a piece; none where more were closed than opened."""
    marks, _ = JsonCounter(_UNLIMITED).outside(piece, _DROPPED)
    if not marks.size:
        return stack
    steps = STEPS[marks]
    depths = np.cumsum(steps, dtype=np.int32) + len(stack)
    lowest = np.minimum.accumulate(depths[::-1])[::-1]  # from each mark to the last
    if lowest[0] < 1:
        return b""
    return stack[: int(lowest[0])] + bytes(marks[(steps > 0) & (depths == lowest)])


def _left_open(piece: Any, depth: int) -> list[Any]:
    """The containers of a piece that go on in the next one, without the member that says so."""
    containers: list[Any] = []
    inner = piece
    while len(containers) < depth and inner and type(inner) in (dict, list):
        containers.append(inner)
        inner = inner[-1] if type(inner) is list else inner[next(reversed(inner))]
    if depth and (len(containers) < depth or not _marked(containers[-1])):
        raise InvalidRequest(
            "A key of an object is given twice."
        )  # its last value has the place of the first
    return containers


def _marked(container: Any) -> bool:
    if type(container) is dict:
        return container.pop(_LAST_KEY, None) is not None
    return bool(container.pop() == _LAST_KEY)


def _join(path: list[Any], piece: Any, left_open: list[Any]) -> list[Any]:
    """Give the containers in `path` what the next piece has for them, and return those that go on behind it."""
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
