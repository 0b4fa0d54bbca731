"""Lines of a terminal: log records and access lines, short, coloured, and never waited for."""

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

from ..extensions import DIALECTS, loaded
from .access import ACCESS, AccessRecord, Sink, log
from .logs import LineFormatter, escaped

MOST_WAITING = 4096
"""Access lines that wait for a terminal. Further ones are dropped and counted."""

GATHERING = 0.02
"""Seconds that access lines are gathered before one write."""

LAST_LINES = 0.5
"""Seconds that a terminal has at the end of the process to take the lines that wait."""

TITLES = {"grpc": "gRPC", "websocket": "WebSocket"}
"""The names of dialects for people. Those of HTTP and doors add theirs. Others are REST, or SSE if they stream."""

GREEN, YELLOW, RED, DIM, PLAIN = "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[2m", "\x1b[0m"

ERASE = "\r\x1b[K"
"""Puts the cursor at the start of the line, and erases it."""

_STATUS = {"success": GREEN, "cancelled": YELLOW, "internal": RED, "worker_lost": RED, "out_of_memory": RED}


class StatusLine:
    """A line at the bottom of the terminal that changes, as while models load."""

    shown = False
    """Whether there is one now. Whatever else is written erases it first."""

    before_loads: ClassVar[list[Callable[[], str]]] = []
    """Functions that describe work before models load, such as downloads. They return "" when idle."""


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person may be looking at this stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


def coloured(stream: TextIO) -> bool:
    """Whether a stream takes colours: https://no-color.org."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class TerminalFormatter(LineFormatter):
    """`12:00:00 message`, with the level where it is a warning, and the logger where it is not ours."""

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
    """Writes access lines to a terminal from a thread, so that one that is slow holds nothing up.

    The thread starts with the first line. Lines that are more than `MOST_WAITING` are dropped, and their count shown.
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
        """Show a record soon. Takes no lock and writes nothing, so it never waits."""
        if len(self._waiting) >= MOST_WAITING:
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
        """Records that other code logs on `inferstream.access` go the way of all others."""
        for handler in logging.getLogger().handlers:
            handler.handle(record)

    def flush(self) -> None:
        """Write what waits, at the end of the process. A terminal that takes nothing is left alone."""
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
        """Write all of it. Not through `sys.stdout`, whose lock the event loop needs for its own records."""
        while data:
            if until is not None and not select.select([], [self._descriptor], [], until - monotonic())[1]:
                return
            try:
                data = data[os.write(self._descriptor, data if until is None else data[:1024]) :]
            except BlockingIOError:
                select.select([], [self._descriptor], [], 1.0)
            except OSError:  # the terminal is gone
                return


def access_line(record: AccessRecord, colours: bool) -> str:
    """A record as a line: time, face, model, status, milliseconds, items, client, error."""
    seconds = int(record.time)
    head = _head(record.face, record.operation, record.model, record.version, record.status, colours)
    line = f"{_clock(seconds)} {head} {record.seconds * 1000:>9.1f} ms"
    if record.operation == "stream" or record.items > 1:
        line += f"  {record.items} {'item' if record.items == 1 else 'items'}"
    if record.principal:
        line += f"  {escaped(record.principal)}"
    if record.error:
        error = escaped(record.error)
        line += f"  {DIM}{error}{PLAIN}" if colours else f"  {error}"
    return line


class AccessFormatter:
    """Formats the records that `/v2/access` sends as the lines of a terminal, in colour if `stream` takes colours."""

    def __init__(self, stream: TextIO) -> None:
        for _ in loaded(DIALECTS, strict=False):
            pass  # a dialect adds its title when it is imported
        self._colours = coloured(stream)

    def format(self, fields: Mapping[str, Any]) -> str:
        """The line of a record. A missing field is empty."""
        return access_line(AccessRecord.from_fields(fields), self._colours)


@lru_cache(8)
def _clock(seconds: int) -> str:
    return strftime("%H:%M:%S", localtime(seconds))


@lru_cache(1024)
def _head(face: str, operation: str, model: str, version: str, status: str, colours: bool) -> str:
    """Face, model and status in columns. Most calls have those of another one."""
    if face == "http":  # no call of a model
        shown, _, model = operation.partition(" ")
    else:
        shown = TITLES.get(face) or ("SSE" if operation == "stream" else "REST")
    name = escaped(f"{model}:{version}" if version else model)
    text = f"{'ok' if status == 'success' else status.replace('_', ' '):<9}"
    if colours:
        text = f"{_STATUS.get(status, YELLOW)}{text}{PLAIN}"
    return f"{shown:<9} {name:<20} {text}"


def access_sink() -> Sink:
    """The console's own lines where the command has set them up, else records of the logger."""
    handlers = logging.getLogger(ACCESS).handlers
    return next((handler.put for handler in handlers if isinstance(handler, Console)), log)


def configure_console(structured: bool, custom: object) -> None:
    """Where standard output is a terminal, show records in short form, and the access log through a `Console`.

    Call it after `configure_logging`. JSON, and loggers that the settings configure, stay as they are.
    """
    access = logging.getLogger(ACCESS)
    for handler in access.handlers:
        if isinstance(handler, Console):
            access.removeHandler(handler)
            access.propagate = True
    if structured or custom or not is_terminal(sys.stdout):
        return
    colours = coloured(sys.stdout)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(TerminalFormatter(colours))
        handler.addFilter(lambda record: not getattr(record, "brief", False))  # the banner says it
    access.addHandler(Console(sys.stdout.fileno(), colours))
    access.propagate = False
