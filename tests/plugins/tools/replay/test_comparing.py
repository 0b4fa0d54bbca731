"""What is a difference between a recorded answer and a replayed one, and how it is told."""

import json
from typing import Literal

import pytest

from inferstream.plugins.tools.replay.comparing import Difference, compare_answers
from inferstream.plugins.tools.replay.records import (
    BeginLine,
    Content,
    EndLine,
    Line,
    Recorded,
    RecordedEvent,
)
from inferstream.plugins.tools.replay.sending import ReplayedAnswer
from inferstream.plugins.traffic.tolerance import Tolerance


def difference(
    before: list[Content], now: list[Content], door: Literal["http", "grpc"] = "http", code: str = "success"
) -> Difference:
    status = 499 if code == "cancelled" else 200
    recorded = Recorded(Line("1", 0.0, door, "v2", "m", [], BeginLine("/", [])))
    recorded.end = EndLine(code, status)
    recorded.events = [RecordedEvent(0.0, "out", part) for part in before]
    return compare_answers(recorded, ReplayedAnswer(status, now), Tolerance(relative=1e-4, absolute=1e-4))


def documents(before: object, now: object) -> Difference:
    return difference([json.dumps(before)], [json.dumps(now)])


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"y": [1.0, 2.0]}, {"y": [1.0, 2.00001]}),
        ({"y": 1, "z": None}, {"z": None, "y": 1.0}),
        ({"id": "a", "y": [1]}, {"id": "b", "y": [1]}),
        ({"y": float("nan"), "n": []}, {"n": [], "y": float("nan")}),
    ],
)
def test_documents_with_close_numbers_are_equal(before: object, now: object) -> None:
    assert documents(before, now).kind in ("bytes", "values")


@pytest.mark.parametrize(
    ("before", "now", "kind", "detail"),
    [
        ({"y": [1.0, 2.0]}, {"y": [1.0, 2.5]}, "numbers", "1 of 2 numbers differ; the first of them is 2.5"),
        ({"y": [1.0]}, {"z": [1.0]}, "structure", "y[0] is missing"),
        ({"y": [1.0]}, {"y": [1.0, 2.0]}, "structure", "y[1] is new"),
        ({"y": [[1.0], [2.0]]}, {"y": [[1.0, 2.0]]}, "structure", "y[1][0] is missing"),
        ({"y": None}, {"y": 1.0}, "structure", "y: 1.0 and not None"),
        ({"y": None}, {}, "structure", "y is missing"),
        ({"y": True}, {"y": 1}, "structure", "y: 1.0 and not True"),
        ({"a": "b", "c": ""}, {"a": "", "c": "b"}, "text", "a: from 0: '' and not 'b'"),
    ],
)
def test_documents_differ_by_keys_nesting_and_nulls(
    before: object, now: object, kind: str, detail: str
) -> None:
    told = documents(before, now)
    assert (told.kind, told.detail[: len(detail)]) == (kind, detail)


def test_character_split_between_parts_is_equal() -> None:
    text = 'data: {"text_output": "gr\u00fc\u00df"}\n\n'.encode()
    at = text.index(b"\xbc")
    assert difference([text[:at], text[at:]], [text.decode()]).kind == "bytes"
    assert difference([text[:at]], [text], code="cancelled").kind == "bytes"


def test_stream_texts_are_joined() -> None:
    one = ['data: {"text": "to"}\n\n', 'data: {"text": "ken", "n": 1}\n\n']
    other = ['data: {"text": "token", "n": 1.00001}\n\n']
    assert difference(one, other).kind == "values"
    assert difference(one, ['data: {"text": "taken"}\n\n']).kind == "text"
    assert difference(one, ['data: {"text": "token", "n": 2}\n\n']).kind == "numbers"


def test_long_or_deep_document_is_compared() -> None:
    assert documents([1] * 200_000, [1.00001] * 200_000).kind == "values"
    deep = "[" * 100_000
    assert difference([deep + "1"], [deep + "2"]).kind == "bytes differ"


def test_binary_tensors_are_compared_byte_by_byte() -> None:
    assert difference([b'{"a": 1}\x00\x01'], [b'{"a": 1}\x00\x02']).kind == "bytes differ"
