"""What a terminal shows of records and calls, and what happens when it takes nothing."""

import io
import logging
import os
from collections.abc import Iterator

import pytest

import inferstream.plugins.text.openai.dialect  # noqa: F401  # it says how lines name it
from inferstream.telemetry import console
from inferstream.telemetry.access import AccessLines, AccessRecord, log
from inferstream.telemetry.console import (
    AccessFormatter,
    Console,
    StatusLine,
    TerminalFormatter,
    access_line,
)
from tests.serving import eventually


def record(**changes: object) -> AccessRecord:
    fields = {
        "time": 0.0,
        "face": "v2",
        "operation": "infer",
        "model": "add",
        "version": "",
        "status": "success",
        "seconds": 0.0123,
        "items": 1,
        "principal": "",
        "id": "",
        "trace_id": "",
        "error": "",
        **changes,
    }
    return AccessRecord(**fields)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, ["REST", "add", "ok", "12.3 ms"]),
        ({"operation": "stream", "items": 3}, ["SSE", "add", "ok", "12.3 ms", "3 items"]),
        ({"operation": "stream", "items": 0, "face": "triton"}, ["SSE", "0 items"]),
        ({"face": "openai"}, ["OpenAI"]),
        ({"face": "grpc", "operation": "stream", "items": 1}, ["gRPC", "1 item"]),
        ({"face": "websocket"}, ["WebSocket"]),
        ({"version": "7"}, ["add:7"]),
        ({"principal": "ann"}, ["ann"]),
        (
            {"status": "not_found", "error": "Model nope not found", "model": "nope"},
            ["nope", "not found", "Model nope"],
        ),
        (
            {"face": "http", "operation": "GET /v2/nothing", "model": "", "status": "404"},
            ["GET", "/v2/nothing", "404"],
        ),
    ],
)
def test_line_has_transport_model_status_time_and_items(changes: dict, shown: list[str]) -> None:
    line = access_line(record(**changes), colours=False)
    positions = [line.index(part) for part in shown]
    assert positions == sorted(positions), line
    assert line.isprintable()


def test_client_text_cannot_control_the_terminal() -> None:
    evil = "x\n12:00:00 REST forged\x1b[31m"
    line = access_line(record(model=evil, principal=evil, error=evil), colours=False)
    assert line.isprintable()
    assert "\\x1b" in line


def test_colours_follow_the_status() -> None:
    assert "\x1b[32mok" in access_line(record(), colours=True)
    assert "\x1b[31minternal" in access_line(record(status="internal"), colours=True)
    assert "\x1b[33minvalid" in access_line(record(status="invalid"), colours=True)


def test_formatter_matches_the_terminal_output_of_the_server() -> None:
    told = record(face="openai", version="7", error="why", seconds=0.5)
    formatter = AccessFormatter(io.StringIO())
    assert formatter.format({"time": told.time, **told.fields()}) == access_line(told, colours=False)
    assert "REST" in formatter.format({"time": 0.0, "unknown": 1})


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_lines_are_written_by_a_thread_and_flushed_at_exit(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    shown = Console(writing, colours=False)
    shown.put(record())
    assert b"REST" in os.read(reading, 1000), "by the thread"
    shown._awake = True  # as if the thread slept for ever
    shown.put(record(model="last"))
    shown.flush()
    assert b"last" in os.read(reading, 1000)


def test_blocked_terminal_drops_and_counts_lines(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "LAST_LINES", 0.01)
    monkeypatch.setattr(console, "MAX_WAITING", 50)
    reading, writing = pipe
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, b"x" * 65536)
    except BlockingIOError:
        pass
    os.set_blocking(writing, True)
    shown = Console(writing, colours=False)
    for _ in range(5000):
        shown.put(record())  # returns, although nothing can be written
    assert shown._dropped > 0
    eventually(shown._writing.locked)  # the thread waits for the terminal
    shown.flush()  # returns too
    read = b""
    while b"lines were dropped" not in read:
        read += os.read(reading, 65536).lstrip(b"x")


def test_console_log_needs_no_second_handler() -> None:
    lines = AccessLines()
    seen: list[AccessRecord] = []
    changes: list[bool] = []
    lines.changed = changes.append
    lines.add(seen.append)
    lines.put(record())
    lines.remove(seen.append)
    assert (len(seen), changes, lines.on) == (1, [True, False], False)


def test_log_record_has_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "inferstream.access"):
        log(record(principal="ann"))
    (found,) = caplog.records
    assert found.getMessage() == "v2 infer add: success, 12.3 ms, 1 item, ann"
    assert found.fields == {
        "face": "v2",
        "operation": "infer",
        "model": "add",
        "status": "success",
        "ms": 12.3,
        "items": 1,
        "principal": "ann",
    }


def test_records_are_short_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(level: int, name: str = "inferstream.server") -> str:
        made = logging.LogRecord(name, level, "", 0, "said %s", ("x\n",), None)
        return TerminalFormatter(colours=False).format(made)[9:]

    assert shown(logging.INFO) == "said x\\n"
    assert shown(logging.ERROR) == "error: said x\\n"
    assert shown(logging.WARNING, "theirs") == "[theirs] warning: said x\\n"
    monkeypatch.setattr(StatusLine, "shown", True)
    made = logging.LogRecord("inferstream", logging.INFO, "", 0, "said", (), None)
    assert TerminalFormatter(colours=False).format(made).startswith("\r\x1b[K")
