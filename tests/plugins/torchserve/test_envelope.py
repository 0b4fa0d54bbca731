"""Requests and answers as rows of bytes."""

from typing import Any

import numpy as np
import pytest

from inferstream.errors import InvalidOutput
from inferstream.plugins.torchserve.envelope import (
    ANSWERED,
    POSTED,
    Posted,
    PostedField,
    RowAnswer,
    decode_requests,
    decode_response,
    encode_request,
    encode_responses,
    to_row_answer,
)


def test_request_round_trip() -> None:
    posted = Posted("id", {"a": "b"}, [PostedField("data", "image/png", b"\x00\xff")])
    [tensor] = encode_request(posted).inputs
    assert (tensor.name, tensor.shape, tensor.datatype) == (POSTED, [1], "BYTES")
    assert decode_requests(tensor) == [posted]


def test_response_round_trip() -> None:
    answer = RowAnswer(b"\x00", "image/png", 418, {"x": "y"})
    tensor = encode_responses([answer])
    assert (tensor.name, tensor.shape) == (ANSWERED, [1])
    assert decode_response(tensor) == answer


@pytest.mark.parametrize(
    ("media_type", "content", "value"),
    [
        ("application/json", b'{"a": 1}', {"a": 1}),
        ("application/json", b"{", b"{"),
        ("application/json", b"[" * 100_000, b"[" * 100_000),
        ("text/plain", "ä".encode(), "ä"),
        ("text/csv", b"\xff", b"\xff"),
        ("image/png", b"{}", b"{}"),
        ("", b"text", b"text"),
    ],
)
def test_handler_inputs(media_type: str, content: bytes, value: Any) -> None:
    found = PostedField("data", media_type, content).value
    assert found == value
    assert type(found) is (bytearray if isinstance(value, bytes) else type(value))


@pytest.mark.parametrize(
    ("value", "content", "media_type"),
    [
        (b"\xff", b"\xff", "application/octet-stream"),
        (bytearray(b"a"), b"a", "application/octet-stream"),
        ("ä", "ä".encode(), "text/plain; charset=utf-8"),
        ({"a": [1]}, b'{\n  "a": [\n    1\n  ]\n}', "application/json"),
        (None, b"null", "application/json"),
        (np.array([1.5]), b"[\n  1.5\n]", "application/json"),
        ({"score": np.float32(0.5)}, b'{\n  "score": 0.5\n}', "application/json"),
        ([float("nan")], b"[\n  null\n]", "application/json"),
        ([b"\xff"], b'[\n  "/w=="\n]', "application/json"),
    ],
)
def test_handler_results(value: Any, content: bytes, media_type: str) -> None:
    assert to_row_answer(value) == RowAnswer(content, media_type)


def test_handler_sets_media_type() -> None:
    own = to_row_answer(b"x", 201, {"content-type": "image/png", "x-more": "1"})
    assert own == RowAnswer(b"x", "image/png", 201, {"x-more": "1"})


def test_invalid_json() -> None:
    with pytest.raises(InvalidOutput, match="no JSON"):
        to_row_answer([object()])
