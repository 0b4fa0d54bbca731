"""Values that leave recordings by their keys."""

import gzip
import json
import zlib

import pytest

from inferstream.keys.sealing import MARK
from inferstream.record.redaction import redacted, without_states

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


def test_a_sealed_state_is_not_written() -> None:
    body = f'{{"previous_response_id": "resp_{MARK}aB-_9", "input": "hi"}}'.encode()
    clean = f'{{"previous_response_id": "resp_{MARK}[redacted]", "input": "hi"}}'.encode()
    assert without_states(body) == clean
    assert without_states(clean) == clean
    assert without_states(gzip.compress(body)) is None
    assert without_states(zlib.compress(body)) is None
    other = gzip.compress(b'{"input": "hi"}')
    assert without_states(other) == other
    assert without_states(gzip.compress(bytes(5 * 2**20))) is None
    assert without_states(b"\x1f\x8bno gzip") == b"\x1f\x8bno gzip"
    assert without_states(b"") == b""
