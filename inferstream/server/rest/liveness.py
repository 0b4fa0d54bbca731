"""Answers liveness probes while the `load` of a model blocks the event loop.

A model with an async `predict` must load on the server's event loop, because its objects belong to that loop. If
its `load` blocks, the loop answers no probe, and Kubernetes kills the server. The thread of `server/standin.py`
therefore accepts connections in place of the loop. It peeks at their bytes, answers liveness probes, and keeps all
other connections for the loop. It does none of this while an inference blocks the loop.
"""

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from ...concurrency.tasks import Tasks
from ..http1.heads import MAX_HEADERS
from ..http1.responses import Openings
from ..standin import Hold, StandIn
from .dialects.metadata import ALIVE

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
    openings: Openings


class Liveness:
    """Answers probes at the ports of a server."""

    def __init__(self, stand_in: StandIn) -> None:
        self._listeners: list[Listener] = []
        self._waiting: dict[socket.socket, Listener] = {}
        self._undecided: list[socket.socket] = []
        self._handing_over = Tasks()
        stand_in.add(self)

    def open(self, listener: Listener) -> None:
        """Answer at this port too."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Answer at no port, because the ports are about to close."""
        self._listeners.clear()

    def respond(self, hold: Hold) -> Iterator[None]:
        if hold.loads:
            for listener in self._listeners:
                self._accept(listener)
            self._undecided = [sock for sock in self._undecided if not self._decide(sock)]
        yield

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
            sock.send(response(listener.openings, ALIVE[path]))

    def turned(self) -> None:
        """Let the event loop serve the connections that the thread has kept."""
        waiting, self._waiting = self._waiting, {}
        self._undecided.clear()
        loop = asyncio.get_running_loop()
        for sock, listener in waiting.items():
            if listener not in self._listeners:
                sock.close()
                continue
            self._handing_over.start(loop.connect_accepted_socket(listener.protocol, sock))


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
        if found[1].lower() == b"accept" and b"text/html" in header:  # a browser, which the page is for
            return ""
    path = request[1].decode()
    return path if path in ALIVE else ""


def response(openings: Openings, body: bytes) -> bytes:
    """The event loop's response to a probe, with `connection: close`."""
    openings.renew()
    head = b"%bcontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
    return head % (openings.of(200), len(body)) + body
