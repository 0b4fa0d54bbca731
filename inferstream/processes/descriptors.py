"""Passes file descriptors between processes, over sockets that keep message boundaries."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable

from . import shared_memory

logger = logging.getLogger("inferstream.worker")

_ROOM = 4096
"""The largest message in bytes."""

Arrived = Callable[[bytes, socket.socket, int, int], None]
"""Takes a message and a connection: a socket to keep, and the memory of requests and responses, closed on return."""


def intake() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets for passing descriptors."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def pass_connection(worker: socket.socket, caller: socket.socket, message: bytes) -> None:
    """Connect a worker and a caller. Raises OSError if either cannot take the connection."""
    with shared_memory.created() as requests, shared_memory.created() as responses:
        to_caller, to_worker = socket.socketpair()
        with to_caller, to_worker:
            socket.send_fds(worker, [b"way"], [to_caller.fileno(), requests, responses])
            socket.send_fds(caller, [message], [to_worker.fileno(), requests, responses])


class Intake:
    """The receiving socket. It closes when the other one does."""

    def __init__(self, end: socket.socket, arrived: Arrived) -> None:
        end.setblocking(False)
        self._socket = end
        self._arrived = arrived
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(end.fileno(), self._read)

    def _read(self) -> None:
        try:
            message, descriptors, *_ = socket.recv_fds(self._socket, _ROOM, 3)
        except BlockingIOError:
            return
        except OSError as error:
            logger.error("a new way between two processes cannot be taken: %s", error.strerror)
            message, descriptors = b"", []
        if not message:
            self.close()
            return
        for descriptor in descriptors:  # received ones are inheritable, and Python 3.11 has no flag
            os.set_inheritable(descriptor, False)
        end, *memory = descriptors
        try:
            self._arrived(message, socket.socket(fileno=end), *memory)
        except OSError as error:
            logger.error("a new way between two processes cannot be used: %s", error.strerror)
        finally:
            for descriptor in memory:
                os.close(descriptor)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
