"""Each line of output is a JSON object."""

import json

import pytest

from inferstream.telemetry.output import wrap_in_object


@pytest.mark.parametrize("line", [b'{"a": 1}\n', b"{}\n"])
def test_json_object_is_unchanged(line: bytes) -> None:
    assert wrap_in_object(line, "stdout") == line


@pytest.mark.parametrize(
    ("line", "stream", "level", "message"),
    [
        (b"printed\n", "stdout", "INFO", "printed"),
        (b"printed", "stdout", "INFO", "printed"),
        (b"warned\n", "stderr", "WARNING", "warned"),
        (b"error: no port\n", "stderr", "ERROR", "no port"),
        (b"{broken}\n", "stdout", "INFO", "{broken}"),
        (b"[1]\n", "stdout", "INFO", "[1]"),
        (b"10 %\r20 %\n", "stderr", "WARNING", "20 %"),
        (b"\xff\n", "stdout", "INFO", "\ufffd"),
    ],
)
def test_text_becomes_a_json_object(line: bytes, stream: str, level: str, message: str) -> None:
    fields = json.loads(wrap_in_object(line, stream))
    assert (fields["name"], fields["level"], fields["message"]) == (stream, level, message)


def test_blank_line_is_dropped() -> None:
    assert wrap_in_object(b" \n", "stdout") == b""
