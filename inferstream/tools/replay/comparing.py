"""Comparison of two answers: their bytes without ids and times, else their numbers and their texts."""

import json
import re
from collections.abc import Iterator, Sequence
from math import isclose
from typing import Any, NamedTuple

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import DecodeError

from ...protos.dataplane_pb2_grpc import METHODS, classes_of
from .records import Content, Recorded
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


def compared(recorded: Recorded, answer: ReplayedAnswer, tolerance: float) -> Difference:
    """Compare the answer with the recorded one."""
    assert recorded.end is not None
    if answer.status != recorded.end["status"]:
        return Difference("status", f"{answer.status} and not {recorded.end['status']}")
    before, now = _masked(recorded, recorded.of("out")), _masked(recorded, answer.parts)
    if recorded.left:
        now = now[: len(before)]  # more may have been on its way when the client left
    if before == now:
        return Difference("bytes")
    values, others = [*_leaves(before)], [*_leaves(now)]
    if values and _text(values) != _text(others):
        return Difference("text", _apart(_text(values), _text(others)))
    numbers, more = _numbers(values), _numbers(others)
    close = len(numbers) == len(more) and all(
        isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
        for one, other in zip(numbers, more, strict=True)
    )
    if values and close:
        return Difference("values")
    return Difference("numbers" if values else "bytes differ", _apart(before, now))


def _masked(recorded: Recorded, parts: Sequence[Content]) -> str:
    """The parts as one text, without ids, times and heartbeats."""
    separator = "" if recorded.door == "http" else "\n"
    text = separator.join(_readable(recorded, part) for part in parts)
    return _MASK.sub(r'"\1":"*"', _COMMENT.sub("", text))


def _readable(recorded: Recorded, part: Content) -> str:
    if isinstance(part, str) or part is None:
        return part or ""
    if recorded.door == "grpc":
        name = recorded.request["target"].rpartition("/")[2]
        method = next((each for each in METHODS if each.name == name), None)
        if method is not None:
            try:
                return MessageToJson(classes_of(method)[1].FromString(part), indent=None)
            except DecodeError:
                pass
    return part.decode("utf-8", "surrogateescape")


def _leaves(text: str) -> Iterator[Any]:
    """The strings and numbers of the JSON in a text: of a whole one, or of each event or line."""
    try:
        documents = [json.loads(text)]
    except ValueError:
        documents = []
        for line in _JSON.finditer(text):
            try:
                documents.append(json.loads(line[1]))
            except ValueError:
                continue
    while documents:
        value = documents.pop(0)
        if isinstance(value, dict | list):
            documents[:0] = value.values() if isinstance(value, dict) else value
        elif value is not None:
            yield value


def _text(leaves: Sequence[Any]) -> str:
    return "".join(leaf for leaf in leaves if isinstance(leaf, str))


def _numbers(leaves: Sequence[Any]) -> list[float]:
    return [float(leaf) for leaf in leaves if isinstance(leaf, int | float)]


def _apart(one: str, other: str) -> str:
    """Where two texts part, and how they go on."""
    at = next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
    start = max(at - 20, 0)
    return f"from {at}: {other[start : at + 40]!r} and not {one[start : at + 40]!r}"
