"""Comparison of two responses: first byte for byte, without ids and times, then by strings and numbers."""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from inferstream.ext.rpc import METHODS
from inferstream.plugins.traffic.comparison import describe_number_difference
from inferstream.plugins.traffic.tolerance import Tolerance

from .records import Content, Recorded, to_wire_bytes
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
"""JSON keys whose values are ids or times in any API, so they are not compared."""

_MASK = re.compile(rf'"({"|".join(MASKED)})"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)')
_COMMENT = re.compile(r"^:[^\n]*\n\n?|^id: ?[^\n]*\n", re.MULTILINE)
_JSON = re.compile(r"^(?:data: ?)?([{\[].*)$", re.MULTILINE)


class Difference(NamedTuple):
    """The result of a comparison. `bytes` and `values` mean that the responses are equal."""

    kind: str
    detail: str = ""


def compare_answers(recorded: Recorded, answer: ReplayedAnswer, tolerance: Tolerance) -> Difference:
    """Compare a response with the recorded one."""
    assert recorded.end is not None
    if answer.status != recorded.end.status:
        return Difference("status", f"{answer.status} and not {recorded.end.status}")
    before, now = _mask(recorded, recorded.select_contents("out")), _mask(recorded, answer.parts)
    if recorded.left:
        now = now[: len(before)]  # More data may have been in transit when the client disconnected.
    if before == now:
        return Difference("bytes")
    try:
        documents = _document(before), _document(now)
    except (ValueError, RecursionError):
        return _compare_pieces(before, now, tolerance)
    return _compare_documents(*documents, tolerance)


def _compare_documents(before: Any, now: Any, tolerance: Tolerance) -> Difference:
    """Compare whole documents, which must have the same keys and lengths, and equal values at each path."""
    values, others = dict(_iterate_leaves(before)), dict(_iterate_leaves(now))
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
            detail = _describe_difference(value, other) if texts else f"{other!r} and not {value!r}"
            return Difference("text" if texts else "structure", f"{path}: {detail}")
    one, more = zip(*numbers, strict=True) if numbers else ((), ())
    return _compare_numbers(one, more, tolerance)


def _compare_pieces(before: str, now: str, tolerance: Tolerance) -> Difference:
    """Compare the JSON of events, lines or messages: the concatenation of all strings, and all numbers."""
    values, others = ([leaf for _, leaf in _iterate_documents(text)] for text in (before, now))
    if not values:
        return Difference("bytes differ", _describe_difference(before, now))
    text, more = ("".join(leaf for leaf in leaves if isinstance(leaf, str)) for leaves in (values, others))
    if text != more:
        return Difference("text", _describe_difference(text, more))
    one, other = ([leaf for leaf in leaves if isinstance(leaf, float | bool)] for leaves in (values, others))
    if len(one) != len(other):
        return Difference("numbers", _describe_difference(before, now))
    return _compare_numbers(one, other, tolerance)


def _compare_numbers(before: Sequence[Any], now: Sequence[Any], tolerance: Tolerance) -> Difference:
    why = describe_number_difference(before, now, tolerance)
    return Difference("values") if why is None else Difference("numbers", why)


def _mask(recorded: Recorded, parts: Sequence[Content]) -> str:
    """Join the parts into one string, without ids, times and heartbeats."""
    if recorded.door == "http":  # HTTP parts can end inside a character.
        decoder = getincrementaldecoder("utf-8")("surrogateescape")
        text = decoder.decode(b"".join(map(to_wire_bytes, parts)), final=not recorded.left)
    else:
        text = "\n".join(_decode_part(recorded, part) for part in parts)
    return _MASK.sub(r'"\1":"*"', _COMMENT.sub("", text))


def _decode_part(recorded: Recorded, part: Content) -> str:
    if recorded.door == "grpc":
        name = recorded.request.target.rpartition("/")[2]
        method = next((each for each in METHODS if each.name == name), None)
        if method is not None:
            try:
                response = GetMessageClass(method.output_type).FromString(to_wire_bytes(part))
                return MessageToJson(response, indent=None)
            except DecodeError:
                pass
    return to_wire_bytes(part).decode("utf-8", "surrogateescape")


def _document(text: str) -> Any:
    return json.loads(text, parse_int=float)


def _iterate_documents(text: str) -> Iterator[tuple[str, Any]]:
    for line in _JSON.finditer(text):
        try:
            document = _document(line[1])
        except (ValueError, RecursionError):
            continue
        yield from _iterate_leaves(document)


def _iterate_leaves(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each string, number, boolean, null and empty container of a document."""
    waiting = [("", document)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict) and value:
            waiting += [(f"{path}.{key}".lstrip("."), each) for key, each in reversed(value.items())]
        elif isinstance(value, list) and value:
            waiting += [(f"{path}[{at}]", each) for at, each in reversed([*enumerate(value)])]
        else:
            yield path, value


def _describe_difference(one: str, other: str) -> str:
    """Describe the first difference between two strings."""
    at = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    start = max(at - 20, 0)
    return f"from {at}: {other[start : at + 40]!r} and not {one[start : at + 40]!r}"
