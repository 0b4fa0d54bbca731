"""Lines of `server tail`."""

import io
import json
from typing import Any

import httpx
import pytest

from inferstream.ext.hosting import ClientTarget as Target
from inferstream.ext.sse import HEARTBEAT, event, named_event
from inferstream.ext.telemetry import AccessFormatter
from inferstream.plugins.tools import tail
from inferstream.plugins.tools.tail import format_event, run

RECORD = {
    "time": 1767268800.5,
    "model": "m",
    "status": "success",
    "ms": 1.5,
    "dialect": "v2",
    "operation": "infer",
}


def test_line_is_human_or_machine_readable() -> None:
    data, formatter = json.dumps(RECORD).encode(), AccessFormatter(io.StringIO())
    assert "m" in format_event("message", data, formatter).split()
    told = json.loads(format_event("message", data, None))
    assert (told["time"], told["model"]) == ("2026-01-01T12:00:00.500+00:00", "m")
    dropped = format_event("dropped", b'{"dropped":3}', formatter)
    assert dropped == "3 lines were dropped: this reader is too slow"
    assert format_event("dropped", b'{"dropped":3}', None) == '{"dropped":3}'


def test_events_are_equal_for_every_split() -> None:
    stream = HEARTBEAT + named_event("dropped", b'{"dropped":1}') + event(b'{"a": ": b"}') + HEARTBEAT
    expected = [("dropped", b'{"dropped":1}'), ("", b'{"a": ": b"}')]
    for cut in range(len(stream)):
        assert [*tail._events([stream[:cut], stream[cut:]])] == expected
    assert [*tail._events(bytes([byte]) for byte in stream)] == expected


def answering(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes) -> list[httpx.Request]:
    """A server with one response."""
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, content=body)

    def stream(*arguments: Any, timeout: Any, verify: bool, **options: Any) -> Any:
        return httpx.Client(transport=httpx.MockTransport(handle)).stream(*arguments, **options)

    monkeypatch.setattr(tail.httpx, "stream", stream)
    return asked


def test_records_are_shown_until_server_stops(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events = f': \n\ndata: {json.dumps(RECORD)}\n\nevent: dropped\ndata: {{"dropped":2}}\n\n'.encode()
    asked = answering(monkeypatch, 200, events)
    assert run(Target("127.0.0.1:1"), "m", True, True) == 0
    said = capsys.readouterr()
    assert [json.loads(line).get("dropped") for line in said.out.splitlines()] == [None, 2]
    assert said.err.splitlines()[-1] == "the server has stopped"
    assert dict(asked[0].url.params) == {"errors": "true", "model": "m"}


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, b"", "there is no access log to follow"),
        (403, b'{"error": "closed"}', "closed"),
        (500, b"<html>", "HTTP status 500"),
    ],
)
def test_refusal_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: int, body: bytes, said: str
) -> None:
    answering(monkeypatch, status, body)
    assert run(Target("127.0.0.1:1"), None, False, False) == 1
    assert capsys.readouterr().err.startswith("error: http://127.0.0.1:1: " + said)


def test_headers_are_sent_and_missing_key_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answering(monkeypatch, 401, b'{"error": "The request needs a valid key."}')
    assert run(Target("127.0.0.1:1", headers={"X-API-Key": "k"}), None, False, False) == 1
    assert asked[0].headers["x-api-key"] == "k"
    assert "-H 'Authorization: Bearer KEY'" in capsys.readouterr().err
