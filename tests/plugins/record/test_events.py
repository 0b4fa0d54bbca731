"""CloudEvents at a real HTTP server: what they say, and what a slow or dead one loses."""

import json
import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from inferstream.plugins.record import events
from inferstream.plugins.record.events import EventSink
from inferstream.plugins.record.file import RecordFile
from inferstream.plugins.record.recording import PortRecording, RecordedRequest
from inferstream.plugins.record.settings import RecordSettings
from tests.serving import eventually

Sent = tuple[dict[str, str], bytes]


class Sink:
    """An HTTP server that keeps what it is sent, as soon as `open` is set."""

    def __init__(self) -> None:
        self.events: list[Sent] = []
        self.open = Event()
        self.open.set()
        self.status = 202
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                sink.open.wait(60)
                if sink.status < 300:
                    sink.events.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(sink.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/log?from=here"
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


def file_of(url: str, hidden: frozenset[str] = frozenset(), **settings: Any) -> RecordFile:
    settings = {"bodies": True, **settings}
    made = RecordSettings(url=url, **settings)
    return RecordFile(made, hidden, EventSink(url, made.mode, "house"))


def recorded(
    file: RecordFile,
    status: int | str,
    *sent: bytes | str,
    door: str = "http",
    model: str = "m",
    id: str = "",
) -> None:
    headers = [(b"content-type", b"application/json")] + ([(b"ce-id", id.encode())] if id else [])
    recording = PortRecording(file.waiting, door, "v2", model, RecordedRequest("/v2", headers, "POST"))
    file.open(recording)
    recording.add("in", b'{"a": 1}')
    if door == "http":
        recording.mark("head", (200, [(b"content-type", b"text/event-stream")]))
    for part in sent:
        recording.add("out", part)
    file.end(recording, status)


def test_stream_is_one_event_next_to_its_request(sink: Sink) -> None:
    file = file_of(sink.url)
    recorded(file, 200, b"data: 1\n\n", b"data: 2\n\n", id="mine")
    eventually(lambda: len(sink.events) == 2, 30)
    file.close()
    (request, body), (response, stream) = sink.events
    assert (body, stream) == (b'{"a": 1}', b"data: 1\n\ndata: 2\n\n")
    assert request["ce-type"] == "org.kubeflow.serving.inference.request"
    assert response["ce-type"] == "org.kubeflow.serving.inference.response"
    assert (request["content-type"], response["content-type"]) == ("application/json", "text/event-stream")
    for event in (request, response):
        assert event["ce-specversion"] == "1.0"
        assert (event["ce-id"], event["ce-source"], event["ce-modelid"]) == ("mine", "house", "m")
        assert (event["ce-status"], event["ce-code"]) == ("200", "success")
    assert response["ce-size"] == "18"


def test_failures_are_events(sink: Sink) -> None:
    file = file_of(sink.url, mode="response")
    recorded(file, 500, b'{"error": "no"}')
    recorded(file, 499)
    eventually(lambda: len(sink.events) == 2, 30)
    file.close()
    assert [(event["ce-status"], body) for event, body in sink.events] == [
        ("500", b'{"error": "no"}'),
        ("499", b""),
    ]
    assert {event["ce-code"] for event, _ in sink.events} == {"internal", "cancelled"}


def test_grpc_messages_have_lengths_and_websocket_messages_are_lines(sink: Sink) -> None:
    file = file_of(sink.url, mode="response")
    recorded(file, "OK", b"\x01\x02", b"\x03", door="grpc")
    recorded(file, 101, '{"n": 1}', '{"n": 2}', door="websocket")
    eventually(lambda: len(sink.events) == 2, 30)
    file.close()
    (of_grpc, messages), (of_socket, lines) = sink.events
    assert messages == b"\0\0\0\0\x02\x01\x02" + b"\0\0\0\0\x01\x03"
    assert of_grpc["content-type"] == "application/grpc+proto"
    assert (lines, of_socket["content-type"]) == (b'{"n": 1}\n{"n": 2}', "application/x-ndjson")


def test_events_without_bodies_have_sizes_and_redaction_applies(sink: Sink) -> None:
    plain = file_of(sink.url, mode="response", bodies=False)
    recorded(plain, 200, b"canary")
    redacting = file_of(sink.url, frozenset({"n"}), mode="response", redact=["n"])
    recorded(redacting, 200, b'{"n": "canary"}')
    recorded(redacting, 200, b"\xffcanary", b"{}")
    eventually(lambda: len(sink.events) == 3, 30)
    plain.close()
    redacting.close()
    assert sorted(event["ce-size"] for event, _ in sink.events)[-1] == "9"
    assert not any(b"canary" in body for _, body in sink.events)


def test_unrecorded_model_has_no_events_and_path_keeps_lines(sink: Sink, tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    file = file_of(sink.url, path=str(path), models=["m"], mode="request")
    recorded(file, 200, model="other")
    recorded(file, 200)
    eventually(lambda: len(sink.events) == 1, 30)
    file.close()
    assert [json.loads(line)["model"] for line in path.read_text().splitlines()] == ["m"]


def test_invalid_header_name_is_encoded(sink: Sink) -> None:
    file = file_of(sink.url, mode="request")
    recorded(file, 200, model="a\r\nb é")
    eventually(lambda: bool(sink.events), 30)
    file.close()
    assert sink.events[0][0]["ce-modelid"] == "a%0D%0Ab%20%C3%A9"


def test_client_id_is_truncated(sink: Sink) -> None:
    file = file_of(sink.url, mode="request")
    recorded(file, 200, id="x" * 30_000)
    eventually(lambda: bool(sink.events), 30)
    file.close()
    assert sink.events[0][0]["ce-id"] == "x" * events.MAX_TEXT


def test_open_recordings_leave_space_for_others(sink: Sink) -> None:
    log = events.EventSink(sink.url, "all", "server")
    try:
        recordings = [events.RecordedContents(log, None) for _ in range(64)]
        for recording in recordings:
            for _ in range(16):
                recording.add("in", b"x" * (events.MAX_CONTENT_BYTES // 16))
        last = events.RecordedContents(log, None)
        last.add("in", b"y" * 1000)
        assert last.kept == 1000
        assert all(recording.kept <= events.MAX_CONTENT_BYTES for recording in recordings)
    finally:
        log.close()


def test_unexpected_error_ends_no_thread(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_of(sink.url, mode="request")
    log = file._sink
    assert log is not None
    send, failures = log._send, [ValueError("no")]

    def fail(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        send(*arguments)

    monkeypatch.setattr(log, "_send", fail)
    recorded(file, 200)
    eventually(lambda: not failures, 30)
    recorded(file, 200)
    eventually(lambda: bool(sink.events), 30)
    file.close()
    assert sink.events[0][0]["ce-lost"] == "1"


@pytest.mark.parametrize("url", ["http://host/\u00e4", "http://host:port/", "ftp://host", "http://a:b@host/"])
def test_unusable_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        RecordSettings(url=url)


def test_slow_sink_drops_events_and_reports_count(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events, "MAX_BYTES", 400)
    monkeypatch.setattr(events.EventSink, "capacity", 2)
    monkeypatch.setattr(RecordFile, "capacity", 2)
    monkeypatch.setattr(events, "SECONDS", 60.0)
    file = file_of(sink.url, mode="response")
    sink.open.clear()
    for _ in range(8):
        recorded(file, 200, b"x" * 40)
        eventually(lambda: file._records.qsize() == 0, 30)
    log = file._sink
    assert log is not None
    eventually(lambda: log._refused > 0, 30)
    sink.open.set()
    with caplog.at_level(logging.WARNING):
        eventually(lambda: log._records.qsize() == 0 and log._kept == log._freed, 30)
    recorded(file, 200, b"last")
    eventually(lambda: any(body == b"last" for _, body in sink.events), 30)
    file.close()
    told = sum(int(event.get("ce-lost", 0)) for event, _ in sink.events)
    assert told == log._refused
    assert told + len(sink.events) == 9
    assert all(len(body) in (0, 4, 40) for _, body in sink.events)


def test_unreachable_sink_blocks_nothing_and_reports_losses(
    sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.status = 503
    file = file_of(sink.url, mode="response")
    log = file._sink
    assert log is not None
    for _ in range(3):
        recorded(file, 200, b"{}")
    eventually(lambda: log._lost_records == 3, 30)
    assert "writing the log of events failed: the answer is 503" in caplog.text
    sink.status = 200
    recorded(file, 200, b"{}")
    eventually(lambda: len(sink.events) == 1, 30)
    file.close()
    assert sink.events[0][0]["ce-lost"] == "3"
    assert "works again; records lost: 3" in caplog.text
    assert log._kept == log._freed


def test_undelivered_events_are_counted_at_exit(caplog: pytest.LogCaptureFixture) -> None:
    file = file_of("http://127.0.0.1:1/", mode="all")
    recorded(file, 200, b"{}")
    file.close()
    assert "records lost at shutdown: 2" in caplog.text


@pytest.mark.parametrize(
    "settings", [{}, {"url": "ftp://host"}, {"url": "http://"}, {"url": "http://a:b@host"}]
)
def test_record_needs_a_destination(settings: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="expected"):
        RecordSettings(**settings)
