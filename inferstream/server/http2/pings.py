"""Acknowledges PINGs from another thread while the event loop is held.

The thread peeks at the bytes that wait in a connection's socket, walks over the frames, and sends the acknowledgements
of PINGs. The bytes stay in the socket. The event loop reads them later, and the connection knows how many PINGs need
nothing more. Everything else of a connection waits for the event loop.

Bytes may be sent beside the event loop only between two frames: where the transport has nothing unsent. Code of a model
may make the event loop write a WINDOW_UPDATE meanwhile, when it reads the next request of its stream. Both are whole
frames in one system call each. Under TLS nothing can be sent, because the event loop alone can make records.
"""

import select
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress

from . import frames
from .connection import Connection

MOST_PEEKED = 1024 * 1024 + 64 * 1024
"""Bytes at the beginning of a socket among which PINGs are found: more than a frame has by default."""

MOST_ANSWERED = 64
"""PINGs of one connection that are acknowledged in one look."""

_PING_BYTES = frames.HEAD_BYTES + 8

_NOTHING_FOLLOWS = 2**62
"""The position of a frame after an error, which the event loop will find."""


class PingResponder:
    """Acknowledges the PINGs of connections without TLS."""

    def __init__(self, connections: Collection[Connection]) -> None:
        self._connections = connections
        self._hold: object = None
        self._walks: dict[int, Walk] = {}
        """The connections of this hold by their descriptors."""
        self._poll = select.poll()
        self._buffer = bytearray()

    def respond(self, hold: object) -> Iterator[None]:
        """Look once, in another thread. The event loop may go on at each `yield`, and then nothing follows.

        `hold` is the same object as long as the event loop has not turned.
        """
        if hold is not self._hold:
            self._hold = hold
            self._poll, self._walks = select.poll(), {}
            for connection in [*self._connections]:  # none comes or goes during a hold
                self._begin(connection)
                yield
        for descriptor, _ in self._poll.poll(0):
            if not self._buffer:  # most servers never need it
                self._buffer = bytearray(2 * MOST_PEEKED)
            self._walks[descriptor].respond(self._buffer)
            yield

    def turned(self) -> None:
        """Forget the connections, which the event loop may close."""
        self._hold, self._walks = None, {}

    def _begin(self, connection: Connection) -> None:
        unread = connection.unread_frame()
        if unread is None:
            return
        sock = connection.transport.get_extra_info("socket")
        if connection.has_gathered:
            with suppress(OSError), sock.dup() as own:
                connection.write_beside(own)
        if connection.between_frames:
            self._poll.register(sock.fileno(), select.POLLIN)
            self._walks[sock.fileno()] = Walk(connection, sock, *unread)


class Walk:
    """Goes once over the frames that wait in one socket.

    `begun` are the bytes of the first frame that the event loop has read, and `left` are those of its payload that the
    frame still has.
    """

    def __init__(self, connection: Connection, sock: socket.socket, begun: bytes, left: int) -> None:
        self._connection = connection
        self._sock = sock
        self._begun = begun
        self._position = left
        """Where the next frame begins, in `begun` and what the socket has."""
        self._known = connection.answered_pings
        """PINGs that come first and are acknowledged."""

    def respond(self, buffer: bytearray) -> None:
        """Acknowledge the PINGs that have arrived. `buffer` is any memory."""
        connection, begun = self._connection, len(self._begun)
        if begun > MOST_PEEKED or self._position > MOST_PEEKED or not connection.between_frames:
            return
        with suppress(OSError), self._sock.dup() as sock:  # the client has left, or does not read
            buffer[:begun] = self._begun
            size = begun + sock.recv_into(memoryview(buffer)[begun:], MOST_PEEKED, PEEK)
            pings, position = walk(buffer, self._position, size, self._known + MOST_ANSWERED)
            new = pings[self._known :]
            if new:
                acknowledgements = b"".join(frames.ping(payload, ack=True) for payload in new)
                sent = sock.send(acknowledgements, socket.MSG_DONTWAIT)
                connection.answered(len(new), acknowledgements[sent:])
            self._position = position
            self._known = max(self._known - len(pings), 0)


PEEK = socket.MSG_PEEK | socket.MSG_DONTWAIT


def walk(data: bytes | bytearray, position: int, size: int, most: int) -> tuple[list[bytes], int]:
    """The payloads of at most `most` PINGs among the whole frames from `position` on, and where the next frame begins.

    `size` bytes of `data` have arrived.
    """
    found: list[bytes] = []
    while size - position >= frames.HEAD_BYTES and len(found) < most:
        high, low, kind, flags, id = frames.read_head(data, position)
        end = position + frames.HEAD_BYTES + (high << 8 | low)
        if kind == frames.PING:
            if end - position != _PING_BYTES or id & frames.LAST_STREAM:
                return found, _NOTHING_FOLLOWS
            if end > size:
                break
            if not flags & frames.ACK:
                found.append(bytes(data[end - 8 : end]))
        position = end
    return found, position
