"""Passes file descriptors between processes, over sockets that preserve message boundaries."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable

from . import shared_memory

logger = logging.getLogger("inferstream.worker")

_ROOM = 4096
"""The maximum message size, in bytes."""

Arrived = Callable[[bytes, socket.socket, int, int], None]
"""Called with a message, the socket of a connection, and two memory descriptors (requests and responses).

The callee owns the socket. The memory descriptors are closed when it returns.
"""


def create_intake() -> tuple[socket.socket, socket.socket]:
    """Create two connected sockets for passing descriptors."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def pass_connection(worker: socket.socket, caller: socket.socket, message: bytes) -> None:
    """Connect a worker and a caller. Raises OSError if either cannot receive the descriptors."""
    with shared_memory.create_memory() as requests, shared_memory.create_memory() as responses:
        to_caller, to_worker = socket.socketpair()
        with to_caller, to_worker:
            socket.send_fds(worker, [b"way"], [to_caller.fileno(), requests, responses])
            socket.send_fds(caller, [message], [to_worker.fileno(), requests, responses])


class Intake:
    """The receiving socket. It closes when its peer does."""

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
            logger.error("receiving a connection to another process failed: %s", error.strerror)
            message, descriptors = b"", []
        if not message:
            self.close()
            return
        for descriptor in descriptors:  # received descriptors are inheritable, and Python 3.11 has no flag
            os.set_inheritable(descriptor, False)
        end, *memory = descriptors
        try:
            self._arrived(message, socket.socket(fileno=end), *memory)
        except OSError as error:
            logger.error("connecting to another process failed: %s", error.strerror)
        finally:
            for descriptor in memory:
                os.close(descriptor)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
