"""Answers liveness probes from a thread while the `load` of a model blocks the event loop.

A model with an async `predict` must load on the server's event loop, because its objects belong to that loop. If
its `load` blocks, the loop answers no probe, and Kubernetes kills the server. A thread therefore watches these
loads. After a quarter of a second it accepts connections in place of the loop. It peeks at their bytes, answers
liveness probes, and keeps all other connections for the loop.

The thread acts only while the loop runs code of a `load`, and never when other code blocks the loop. It uses sockets
only then and under the lock. The loop takes the same lock when the code returns, so both never use one socket.
"""

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from email.utils import formatdate
from time import monotonic
from typing import Any, NamedTuple

import uvicorn

from ...concurrency.tasks import Tasks
from ...dataplane.execution.stretches import in_stretches
from ...telemetry.context import model_name_var
from .dialects.metadata import ALIVE
from .transport import MAX_HEADERS

logger = logging.getLogger("inferstream.model")

BLOCKED_AFTER = 0.25
"""Seconds for which the code of a `load` may block the event loop before the thread accepts connections."""

LOOK_EVERY = 0.05
"""Seconds between the thread's checks of the event loop, and of the connections while the loop is blocked."""

MOST_WAITING = 1000
"""Connections that the thread keeps for the event loop. Further ones stay in the backlog of the port."""

LONGEST_HEAD = 4096
"""Bytes of the head of a probe. A longer request is no probe."""

_REQUEST = re.compile(rb"GET (/[\w/]*)(?:\?[!\"$-~]*)? HTTP/1\.[01]")
_HEADER = re.compile(rb"([\w.!$&'*+^`|~-]+):[\t -~]*")
_NOT_OF_PROBES = {b"content-length", b"expect", b"origin", b"transfer-encoding", b"upgrade"}
"""Headers that change the event loop's response, or announce a body."""


class Listener(NamedTuple):
    """A port without TLS."""

    sock: socket.socket
    protocol: Callable[[], asyncio.Protocol]
    """Makes the protocol of one connection."""
    config: uvicorn.Config


class Liveness:
    """Answers probes at the ports of a server; `limit` is the number of seconds one `load` may take."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._listeners: list[Listener] = []
        self._loads = 0
        self._stand_in: _StandIn | None = None

    def open(self, listener: Listener) -> None:
        """Answer at this port too."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Answer at no port, because the ports are about to close."""
        self._listeners.clear()

    async def during(self, loading: Awaitable[Any]) -> Any:
        """Await a `load` or `unload` that may block this event loop."""
        if self._stand_in is None:
            self._stand_in = _StandIn(self._listeners)
        self._loads += 1
        load = _Load(self._stand_in, monotonic() + self._limit)
        try:
            return await in_stretches(loading, load)
        finally:
            self._loads -= 1
            if not self._loads:
                self._stand_in.over.set()
                self._stand_in = None
            if load.longest > BLOCKED_AFTER:
                logger.warning(
                    "model %s: its load or unload awaits and also blocks: it held the event loop for %.1f s, and "
                    "requests waited. Write what blocks as `def`, call it with asyncio.to_thread, or set "
                    "parallel_workers.",
                    model_name_var.get(),
                    load.longest,
                )


class _Load:
    """Reports to the thread when the code of one `load` runs."""

    def __init__(self, stand_in: "_StandIn", until: float) -> None:
        self._stand_in = stand_in
        self._until = until
        self.longest = 0.0
        """Seconds of the longest stretch for which it held the event loop."""

    def turn(self) -> None:
        self._stand_in.held(self._until)

    def ended(self, seconds: float) -> None:
        self.longest = max(self.longest, seconds)
        self._stand_in.free()


class _StandIn:
    """The thread, from the start of the first of concurrent loads to the end of the last."""

    def __init__(self, listeners: list[Listener]) -> None:
        self.over = threading.Event()
        self._listeners = listeners
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._until: float | None = None
        """When the thread must stop answering; None while the event loop runs no code of a `load`."""
        self._turned_at: float | None = None
        """When such code first ran in this turn of the event loop, or None."""
        self._waiting: dict[socket.socket, Listener] = {}
        self._undecided: list[socket.socket] = []
        self._handing_over = Tasks()
        threading.Thread(target=self._run, name="liveness", daemon=True).start()

    def held(self, until: float) -> None:
        """Record that the event loop is about to run the code of a `load`."""
        with self._lock:
            self._until = until
            if self._turned_at is None:
                self._turned_at = monotonic()
                self._loop.call_soon(self._turned)  # several loads may run in one turn

    def free(self) -> None:
        """Record that the code has returned to the event loop."""
        with self._lock:
            self._until = None

    def _run(self) -> None:
        while not self.over.wait(LOOK_EVERY):
            with self._lock:
                if self._must_respond():
                    for listener in self._listeners:
                        self._accept(listener)
                    self._undecided = [sock for sock in self._undecided if not self._decide(sock)]

    def _must_respond(self) -> bool:
        if self._until is None or self._turned_at is None:
            return False
        return self._turned_at + BLOCKED_AFTER < monotonic() < self._until

    def _accept(self, listener: Listener) -> None:
        with suppress(OSError):  # no connection waits, or the process has too many open files
            while len(self._waiting) < MOST_WAITING:
                sock, _ = listener.sock.accept()
                sock.setblocking(False)
                self._waiting[sock] = listener
                self._undecided.append(sock)

    def _decide(self, sock: socket.socket) -> bool:
        """Answer a probe or close an ended connection; False if the decision needs more bytes."""
        try:
            received = sock.recv(LONGEST_HEAD, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            received = b""
        if not received:
            del self._waiting[sock]
            sock.close()
            return True
        path = probed(received)
        if path:
            self._respond(sock, self._waiting.pop(sock), len(received), path)
        return path is not None

    def _respond(self, sock: socket.socket, listener: Listener, size: int, path: str) -> None:
        with sock, suppress(OSError):  # the client has left
            sock.recv(size)  # the kernel resets a connection that closes with unread bytes
            sock.send(response(listener.config, ALIVE[path]))

    def _turned(self) -> None:
        """Let the event loop serve the connections that the thread has kept."""
        with self._lock:
            self._turned_at = None
            waiting, self._waiting = self._waiting, {}
            self._undecided.clear()
        for sock, listener in waiting.items():
            if listener not in self._listeners:
                sock.close()
                continue
            self._handing_over.start(self._loop.connect_accepted_socket(listener.protocol, sock))


def probed(received: bytes) -> str | None:
    """The path of the probe in the bytes `received`; "" if they are no probe, None if they are incomplete."""
    head, ended, rest = received.partition(b"\r\n\r\n")
    if not ended:
        return None if len(received) < LONGEST_HEAD else ""
    line, *headers = head.split(b"\r\n")
    request = _REQUEST.fullmatch(line)
    if rest or request is None or len(headers) > MAX_HEADERS:
        return ""
    for header in headers:
        found = _HEADER.fullmatch(header)
        if found is None or found[1].lower() in _NOT_OF_PROBES:
            return ""
    path = request[1].decode()
    return path if path in ALIVE else ""


def response(config: uvicorn.Config, body: bytes) -> bytes:
    """The event loop's response to a probe, with `connection: close`."""
    headers = [(b"date", formatdate(usegmt=True).encode())] if config.date_header else []
    headers += config.encoded_headers
    headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers.append((b"connection", b"close"))
    return b"HTTP/1.1 200 OK\r\n%s\r\n%s" % (b"".join(b"%s: %s\r\n" % pair for pair in headers), body)
