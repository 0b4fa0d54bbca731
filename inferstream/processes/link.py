"""One end of a socket between two processes."""

import asyncio
import logging
import socket
import struct
from collections.abc import Callable

import msgspec

from ..concurrency.outgoing import Gathered
from .frames import Frame, encode_foreign

logger = logging.getLogger("inferstream.worker")

_LENGTH = struct.Struct("<Q")
_ROOM = 2**18
"""Bytes read at a time: the default capacity of a Unix socket."""

SILENCE = 0.0005
"""If a process has sent nothing for this time, in seconds, it sends the next frame immediately."""


class Link:
    """Sends and receives frames, several per system call.

    Calls `received` for each frame, and `lost` once at the end.
    """

    def __init__(
        self,
        end: socket.socket,
        decoder: "msgspec.msgpack.Decoder[Frame]",
        received: Callable[[Frame], None],
        lost: Callable[[], None],
    ) -> None:
        end.setblocking(False)
        self._socket = end
        self._descriptor = end.fileno()
        self._loop = asyncio.get_running_loop()
        self._encode = msgspec.msgpack.Encoder(enc_hook=encode_foreign).encode
        self._decode = decoder.decode
        self._received = received
        self._lost = lost
        self._closed = False
        self._gathered = Gathered()
        self._rest = memoryview(b"")
        self._scheduled = False
        self._buffer = bytearray(_ROOM)
        self._filled = 0
        self._loop.add_reader(self._descriptor, self._read)

    def send(self, frame: Frame) -> int:
        """Send a frame soon, and return its size in bytes.

        Raises the msgspec error for a value that cannot be encoded.
        """
        data = self._encode(frame)
        size = len(data)
        if self._closed:
            return size
        waits = self._gathered.can_wait(size, SILENCE)
        self._gathered.add(size, _LENGTH.pack(size), data)
        if self._rest:
            return size
        if not waits:
            self._flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)
        return size

    def _flush(self) -> None:
        self._scheduled = False
        if self._closed or self._rest or not self._gathered:
            return
        self._rest = memoryview(self._gathered.take())
        self._write()
        if self._rest:
            self._loop.add_writer(self._descriptor, self._resume)

    def _write(self) -> None:
        try:
            self._rest = self._rest[self._socket.send(self._rest) :]
        except BlockingIOError:
            return
        except OSError:
            self._rest = memoryview(b"")  # the reading side reports the error

    def _resume(self) -> None:
        self._write()
        if not self._rest:
            self._loop.remove_writer(self._descriptor)
            self._flush()

    def _read(self) -> bool:
        try:
            count = self._socket.recv_into(memoryview(self._buffer)[self._filled :])
        except BlockingIOError:
            return False
        except OSError:
            count = 0
        if count == 0:
            self._end()
            return False
        self._filled += count
        try:
            self._parse()
        except Exception:  # after a malformed frame, later calls must not wait forever
            logger.exception("malformed frame from another process; closing the socket")
            self._end()
        return True

    def drain(self) -> None:
        """Read the remaining frames of a process that has exited."""
        while not self._closed and self._read():
            pass

    def _parse(self) -> None:
        view = memoryview(self._buffer)
        start, filled = 0, self._filled
        needed = 0
        while filled - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(view, start)
            end = start + _LENGTH.size + length
            if end > filled:
                needed = end - start
                break
            frame = self._decode(view[start + _LENGTH.size : end])
            start = end
            self._received(frame)
            if self._closed:
                return
        self._filled = filled - start
        if needed > len(self._buffer) or (len(self._buffer) > _ROOM and needed <= _ROOM):
            larger = bytearray(max(needed, _ROOM))
            larger[: self._filled] = view[start:filled]
            self._buffer = larger
        elif start and self._filled:
            view[: self._filled] = view[start:filled]

    def _end(self) -> None:
        if not self._closed:
            self.close()
            self._lost()

    def close(self) -> None:
        """Stop sending and receiving, without calling `lost`."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        self._socket.close()
