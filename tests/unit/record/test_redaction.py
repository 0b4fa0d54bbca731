"""Values that leave recordings by their keys."""

import json

import pytest

from inferstream.record.redaction import redacted

NAMES = {"prompt"}


@pytest.mark.parametrize(
    ("content", "clean"),
    [
        (b'{"prompt": "secret", "n": 1}', '{"prompt": "[redacted]", "n": 1}'),
        (b'id: 1\ndata: {"prompt": "secret"}\n\n', 'id: 1\ndata: {"prompt": "[redacted]"}\n\n'),
        (b'data: {"n": 1}\r\n\r\ndata: [DONE]\r\n\r\n', 'data: {"n": 1}\n\r\ndata: [DONE]\r\n\r\n'),
    ],
)
def test_json_and_events_keep_everything_else(content: bytes, clean: str) -> None:
    assert redacted(content, NAMES) == clean


@pytest.mark.parametrize(
    "content",
    [
        b'{"inputs": []}\n\0\0\0secret text',
        b'my secret\n{"a": 1}\nthanks',
        b"data: {broken\n\n",
        b"\xff\xfe",
        b"[" * 200_000,
    ],
)
def test_what_has_anything_else_is_not_written(content: bytes) -> None:
    assert redacted(content, NAMES) is None


def test_a_tensor_loses_its_data() -> None:
    body = json.dumps({"inputs": [{"name": "prompt", "data": ["secret"]}]})
    assert "secret" not in str(redacted(body, NAMES))
