"""Values that leave recordings by their keys."""

import gzip
import json
import zlib

import pytest

from inferstream.keys.sealing import MARK
from inferstream.record.redaction import redacted, without_secrets

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
    assert without_secrets(body, True) == clean
    assert without_secrets(clean, True) == clean
    assert without_secrets(gzip.compress(body), True) is None
    assert without_secrets(zlib.compress(body), True) is None
    other = gzip.compress(b'{"input": "hi"}')
    assert without_secrets(other, True) == other
    assert without_secrets(gzip.compress(bytes(65 * 2**20)), True) is None
    assert without_secrets(b"\x1f\x8bno gzip", True) == b"\x1f\x8bno gzip"
    assert without_secrets(b"", True) == b""


KEY = "ifs_a11ce_" + "aB-_9" * 9


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize(
    "key",
    [
        KEY,
        "".join(f"\\u{ord(c):04x}" for c in KEY),
        KEY.replace("i", "\\u0069", 1),
        KEY.replace("_", "\\u005F"),
    ],
)
def test_a_key_is_not_written_and_no_length_changes(key: str, states: bool) -> None:
    for around in (f'{{"a": "my {key}"}}', f"data: {key}\n\n", f"{key} {key}", "x" * 32_700 + key):
        for content in (around, around.encode(), b"\0\xff" + around.encode()):
            clean = without_secrets(content, states)
            assert clean is not None
            assert len(clean) == len(content)
            assert key[-20:] not in str(clean)
            assert "ifs_***" in str(clean)
        assert without_secrets(gzip.compress(around.encode()), states) is None


def test_what_is_no_key_stays() -> None:
    for content in (b"ifs_short", b"ifs_" * 1000, b"\\u0069" * 1000, b"ifs_ " + b"x" * 100):
        assert without_secrets(content, False) is content or content == b"ifs_" * 1000
