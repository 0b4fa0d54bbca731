"""Terminal output: log records and access lines, short, coloured, and written without blocking the caller."""

import logging
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from time import localtime, monotonic, sleep, strftime
from typing import Any, ClassVar, TextIO

from ..extensions.entries import DIALECTS
from ..extensions.loading import load_group
from .access import ACCESS, AccessRecord, Sink, log
from .logs import LineFormatter, escape

MAX_WAITING = 4096
"""The maximum number of access lines waiting for the terminal. Additional ones are dropped and counted."""

GATHERING = 0.02
"""The time in seconds to collect access lines before a write."""

LAST_LINES = 0.5
"""The time in seconds to write the waiting lines when the process exits."""

TITLES = {"grpc": "gRPC", "websocket": "WebSocket"}
"""Display names of APIs.

HTTP APIs and transports add theirs. Other calls are shown as REST, or SSE if they stream.
"""

GREEN, YELLOW, RED, DIM, PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[0m"

ERASE = "\r\x1b[K"
"""Moves the cursor to the start of the line and erases it."""

_STATUS = {"success": GREEN, "cancelled": YELLOW, "internal": RED, "worker_lost": RED, "out_of_memory": RED}


class StatusLine:
    """A changing line at the bottom of the terminal, for example while models load."""

    shown = False
    """Whether the line is visible. All other output erases it first."""

    before_loads: ClassVar[list[Callable[[], str]]] = []
    """Functions that describe work before models load, such as downloads. They return "" when idle."""


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is an interactive terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def supports_colours(stream: TextIO) -> bool:
    """Whether a stream supports colours (see https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class TerminalFormatter(LineFormatter):
    """`12:00:00 message`, with the level unless it is INFO, and the logger unless it is inferstream's."""

    def __init__(self, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def head(self, record: logging.LogRecord) -> str:
        erase = ERASE if StatusLine.shown else ""
        head = f"{erase}{self.formatTime(record, '%H:%M:%S')} "
        if not record.name.startswith("inferstream"):
            head += f"[{record.name}] "
        if record.levelno == logging.INFO:
            return head
        level = f"{record.levelname.lower()}: "
        if self._colours and record.levelno >= logging.WARNING:
            level = f"{RED if record.levelno >= logging.ERROR else YELLOW}{level}{PLAIN}"
        return head + level


class Console(logging.Handler):
    """Writes access lines to a terminal from a thread, so that a slow terminal does not block calls.

    The thread starts with the first line. Lines beyond `MAX_WAITING` are dropped, and their number is shown.
    """

    def __init__(self, descriptor: int, colours: bool) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._colours = colours
        self._waiting: deque[AccessRecord] = deque()
        self._dropped = 0
        self._awake = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._writing = threading.Lock()

    def put(self, record: AccessRecord) -> None:
        """Queue a record. Takes no lock and writes nothing, so it never blocks."""
        if len(self._waiting) >= MAX_WAITING:
            self._dropped += 1
            return
        self._waiting.append(record)
        if not self._awake:
            self._awake = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="console", daemon=True)
                self._thread.start()
            self._wake.set()

    def emit(self, record: logging.LogRecord) -> None:
        """Pass records that other code logs to `inferstream.access` to the handlers of the root logger."""
        for handler in logging.getLogger().handlers:
            handler.handle(record)

    def flush(self) -> None:
        """Write the waiting lines at process exit. Gives up if the terminal accepts no output."""
        if self._writing.acquire(timeout=LAST_LINES):
            try:
                self._drain(monotonic() + LAST_LINES)
            finally:
                self._writing.release()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            sleep(GATHERING)
            self._awake = False
            with self._writing:
                self._drain(None)

    def _drain(self, until: float | None) -> None:
        waiting, lines = self._waiting, []
        while waiting:
            lines.append(access_line(waiting.popleft(), self._colours))
        dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(f"{dropped} lines were dropped: the terminal was too slow")
        if lines:
            erase = ERASE if StatusLine.shown else ""
            self._write((erase + "\n".join(lines) + "\n").encode(errors="replace"), until)

    def _write(self, data: bytes, until: float | None) -> None:
        """Write all data, bypassing `sys.stdout`, whose lock the event loop needs for log records."""
        while data:
            if until is not None and not select.select([], [self._descriptor], [], until - monotonic())[1]:
                return
            try:
                data = data[os.write(self._descriptor, data if until is None else data[:1024]) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [], 1.0)
            except OSError:  # the terminal was closed
                return


def access_line(record: AccessRecord, colours: bool) -> str:
    """Format a record: time, API, model, status, milliseconds, items, client, error."""
    seconds = int(record.time)
    head = _head(record.face, record.operation, record.model, record.version, record.status, colours)
    line = f"{_clock(seconds)} {head} {record.seconds * 1000:>9.1f} ms"
    if record.operation == "stream" or record.items > 1:
        line += f"  {record.items} {'item' if record.items == 1 else 'items'}"
    if record.principal:
        line += f"  {escape(record.principal)}"
    if record.error:
        error = escape(record.error)
        line += f"  {DIM}{error}{PLAIN}" if colours else f"  {error}"
    return line


class AccessFormatter:
    """Formats the records from `/v2/access` as terminal lines, in colour if `stream` supports it."""

    def __init__(self, stream: TextIO) -> None:
        for _ in load_group(DIALECTS, strict=False):
            pass  # importing a dialect adds its title
        self._colours = supports_colours(stream)

    def format(self, fields: Mapping[str, Any]) -> str:
        """Format the fields of a record. Missing fields are empty."""
        return access_line(AccessRecord.from_fields(fields), self._colours)


@lru_cache(8)
def _clock(seconds: int) -> str:
    return strftime("%H:%M:%S", localtime(seconds))


@lru_cache(1024)
def _head(face: str, operation: str, model: str, version: str, status: str, colours: bool) -> str:
    """Format the API, model and status as columns. Cached, because most calls repeat a combination."""
    if face == "http":  # not a model call
        shown, _, model = operation.partition(" ")
    else:
        shown = TITLES.get(face) or ("SSE" if operation == "stream" else "REST")
    name = escape(f"{model}:{version}" if version else model)
    text = f"{'ok' if status == 'success' else status.replace('_', ' '):<9}"
    if colours:
        text = f"{_STATUS.get(status, YELLOW)}{text}{PLAIN}"
    return f"{shown:<9} {name:<20} {text}"


def access_sink() -> Sink:
    """Return the console's sink if a console is configured, otherwise `log`."""
    handlers = logging.getLogger(ACCESS).handlers
    return next((handler.put for handler in handlers if isinstance(handler, Console)), log)


def configure_console(structured: bool, custom: object) -> None:
    """If standard output is a terminal, use short log lines, and a `Console` for the access log.

    Call it after `configure_logging`. JSON logs and loggers configured in the settings are not changed.
    """
    access = logging.getLogger(ACCESS)
    for handler in access.handlers:
        if isinstance(handler, Console):
            access.removeHandler(handler)
            access.propagate = True
    if structured or custom or not is_terminal(sys.stdout):
        return
    colours = supports_colours(sys.stdout)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(TerminalFormatter(colours))
        handler.addFilter(lambda record: not getattr(record, "brief", False))  # already in the banner
    access.addHandler(Console(sys.stdout.fileno(), colours))
    access.propagate = False
