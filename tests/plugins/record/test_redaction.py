"""Values that leave recordings by their keys."""

import gzip
import json
import zlib

import pytest

from inferstream.plugins.record.redaction import redact, remove_secrets

NAMES = {"prompt"}
MARK = "ifs_state_"


@pytest.mark.parametrize(
    ("content", "clean"),
    [
        (b'{"prompt": "secret", "n": 1}', '{"prompt": "[redacted]", "n": 1}'),
        (b'id: 1\ndata: {"prompt": "secret"}\n\n', 'id: 1\ndata: {"prompt": "[redacted]"}\n\n'),
        (b'data: {"n": 1}\r\n\r\ndata: [DONE]\r\n\r\n', 'data: {"n": 1}\n\r\ndata: [DONE]\r\n\r\n'),
    ],
)
def test_json_and_events_keep_other_fields(content: bytes, clean: str) -> None:
    assert redact(content, NAMES) == clean


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
def test_unknown_content_is_not_written(content: bytes) -> None:
    assert redact(content, NAMES) is None


def test_tensor_data_is_removed() -> None:
    body = json.dumps({"inputs": [{"name": "prompt", "data": ["secret"]}]})
    assert "secret" not in str(redact(body, NAMES))


def test_sealed_state_is_not_written() -> None:
    body = f'{{"previous_response_id": "resp_{MARK}aB-_9", "input": "hi"}}'.encode()
    clean = f'{{"previous_response_id": "resp_{MARK}[redacted]", "input": "hi"}}'.encode()
    assert remove_secrets(body, True) == clean
    assert remove_secrets(clean, True) == clean
    assert remove_secrets(gzip.compress(body), True) is None
    assert remove_secrets(zlib.compress(body), True) is None
    other = gzip.compress(b'{"input": "hi"}')
    assert remove_secrets(other, True) == other
    assert remove_secrets(gzip.compress(bytes(65 * 2**20)), True) is None
    assert remove_secrets(b"\x1f\x8bno gzip", True) == b"\x1f\x8bno gzip"
    assert remove_secrets(b"", True) == b""


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
def test_key_is_masked_with_equal_length(key: str, states: bool) -> None:
    for around in (f'{{"a": "my {key}"}}', f"data: {key}\n\n", f"{key} {key}", "x" * 32_700 + key):
        for content in (around, around.encode(), b"\0\xff" + around.encode()):
            clean = remove_secrets(content, states)
            assert clean is not None
            assert len(clean) == len(content)
            assert key[-20:] not in str(clean)
            assert "ifs_***" in str(clean)
        assert remove_secrets(gzip.compress(around.encode()), states) is None


def test_other_text_is_kept() -> None:
    for content in (b"ifs_short", b"ifs_" * 1000, b"\\u0069" * 1000, b"ifs_ " + b"x" * 100):
        assert remove_secrets(content, False) is content or content == b"ifs_" * 1000
