"""Comparison of two answers: their bytes without ids and times, else their numbers and their texts."""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from inferstream.ext.rpc import METHODS
from inferstream.plugins.traffic.comparison import numbers_apart
from inferstream.plugins.traffic.tolerance import Tolerance

from .records import Content, Recorded, octets
from .sending import ReplayedAnswer

MASKED = (
    "id",
    "created",
    "created_at",
    "completed_at",
    "item_id",
    "response_id",
    "call_id",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
    "inference_time",
    "total_time",
    "time_per_token",
    "queue_time",
    "validation_time",
)
"""Keys of JSON whose values are ids or times, in any dialect. docs/record.md lists them."""

_MASK = re.compile(rf'"({"|".join(MASKED)})"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)')
_COMMENT = re.compile(r"^:[^\n]*\n\n?|^id: ?[^\n]*\n", re.MULTILINE)
_JSON = re.compile(r"^(?:data: ?)?([{\[].*)$", re.MULTILINE)


class Difference(NamedTuple):
    """How two answers compare: `bytes` and `values` are no differences."""

    kind: str
    detail: str = ""


def compared(recorded: Recorded, answer: ReplayedAnswer, tolerance: Tolerance) -> Difference:
    """Compare the answer with the recorded one."""
    assert recorded.end is not None
    if answer.status != recorded.end.status:
        return Difference("status", f"{answer.status} and not {recorded.end.status}")
    before, now = _masked(recorded, recorded.of("out")), _masked(recorded, answer.parts)
    if recorded.left:
        now = now[: len(before)]  # more may have been on its way when the client left
    if before == now:
        return Difference("bytes")
    try:
        documents = _document(before), _document(now)
    except (ValueError, RecursionError):
        return _pieces_compared(before, now, tolerance)
    return _documents_compared(*documents, tolerance)


def _documents_compared(before: Any, now: Any, tolerance: Tolerance) -> Difference:
    """Whole documents: the same keys and lengths, and equal values at each place."""
    values, others = dict(_leaves(before)), dict(_leaves(now))
    for path in [*values, *others]:
        if path not in values or path not in others:
            return Difference("structure", f"{path} is {'missing' if path in values else 'new'}")
    numbers = []
    for path, value in values.items():
        other = others[path]
        if isinstance(value, float) and isinstance(other, float):
            numbers.append((value, other))
        elif (type(value), value) != (type(other), other):
            texts = isinstance(value, str) and isinstance(other, str)
            detail = _apart(value, other) if texts else f"{other!r} and not {value!r}"
            return Difference("text" if texts else "structure", f"{path}: {detail}")
    one, more = zip(*numbers, strict=True) if numbers else ((), ())
    return _numbers_compared(one, more, tolerance)


def _pieces_compared(before: str, now: str, tolerance: Tolerance) -> Difference:
    """The JSON of events, lines or messages: all their texts as one, and all their numbers."""
    values, others = ([leaf for _, leaf in _of_lines(text)] for text in (before, now))
    if not values:
        return Difference("bytes differ", _apart(before, now))
    text, more = ("".join(leaf for leaf in leaves if isinstance(leaf, str)) for leaves in (values, others))
    if text != more:
        return Difference("text", _apart(text, more))
    one, other = ([leaf for leaf in leaves if isinstance(leaf, float | bool)] for leaves in (values, others))
    if len(one) != len(other):
        return Difference("numbers", _apart(before, now))
    return _numbers_compared(one, other, tolerance)


def _numbers_compared(before: Sequence[Any], now: Sequence[Any], tolerance: Tolerance) -> Difference:
    why = numbers_apart(before, now, tolerance)
    return Difference("values") if why is None else Difference("numbers", why)


def _masked(recorded: Recorded, parts: Sequence[Content]) -> str:
    """The parts as one text, without ids, times and heartbeats."""
    if recorded.door == "http":  # its parts may end within a character
        decoder = getincrementaldecoder("utf-8")("surrogateescape")
        text = decoder.decode(b"".join(map(octets, parts)), final=not recorded.left)
    else:
        text = "\n".join(_readable(recorded, part) for part in parts)
    return _MASK.sub(r'"\1":"*"', _COMMENT.sub("", text))


def _readable(recorded: Recorded, part: Content) -> str:
    if recorded.door == "grpc":
        name = recorded.request.target.rpartition("/")[2]
        method = next((each for each in METHODS if each.name == name), None)
        if method is not None:
            try:
                response = GetMessageClass(method.output_type).FromString(octets(part))
                return MessageToJson(response, indent=None)
            except DecodeError:
                pass
    return octets(part).decode("utf-8", "surrogateescape")


def _document(text: str) -> Any:
    return json.loads(text, parse_int=float)


def _of_lines(text: str) -> Iterator[tuple[str, Any]]:
    for line in _JSON.finditer(text):
        try:
            document = _document(line[1])
        except (ValueError, RecursionError):
            continue
        yield from _leaves(document)


def _leaves(document: Any) -> Iterator[tuple[str, Any]]:
    """The strings, numbers, booleans and nulls of a document, and what is empty in it, with their places."""
    waiting = [("", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += [(f"{path}.{key}".lstrip("."), each) for key, each in reversed(value.items())]
        elif isinstance(value, list) and value:
            waiting += [(f"{path}[{at}]", each) for at, each in reversed([*enumerate(value)])]
        else:
            yield path, value


def _apart(one: str, other: str) -> str:
    """Where two texts part, and how they go on."""
    at = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    start = max(at - 20, 0)
    return f"from {at}: {other[start : at + 40]!r} and not {one[start : at + 40]!r}"
