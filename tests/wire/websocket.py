"""WebSocket over a bare socket: frames as they came."""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import normal
from .http import Connection, Http, Recorded, request

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = "AAAAAAAAAAAAAAAAAAAAAA=="


class Frame(NamedTuple):
    """A frame to send, with `first` as its first byte."""

    first: int
    payload: bytes


class Read(NamedTuple):
    """So many frames to wait for."""

    count: int


Step = str | bytes | dict | Frame | Read


class Socket(NamedTuple):
    """A conversation: texts, binary messages, JSON and frames are sent in turn; at last the client closes with 1000."""

    name: str
    path: str
    steps: list[Step]
    headers: Mapping[str, str] = {}
    upgrade: Mapping[str, str] = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": KEY,
    }


def run(case: Socket, port: int) -> Recorded:
    """Hold a conversation and record what the server says."""
    with Connection(port) as connection:
        connection.send(request("GET", case.path, headers={**case.upgrade, **case.headers}))
        if not connection.buffer:
            connection.more()
        if b" 101 " not in connection.buffer[:16]:
            return connection.response(Http(case.name, []))
        _, recorded, _ = connection.head()
        recorded["frames"] = frames = []
        for step in case.steps:
            if isinstance(step, Read):
                for _ in range(step.count):
                    frames.append(_receive(connection))
            else:
                _send(connection, step)
        if not any(frame[0] == CLOSE for frame in frames):
            _send(connection, Frame(0x80 | CLOSE, (1000).to_bytes(2, "big")))
            while not frames or frames[-1][0] != CLOSE:
                frames.append(_receive(connection))
        recorded["after"] = normal.text_of(connection.rest())
        return recorded


def _send(connection: Connection, step: Any) -> None:
    if isinstance(step, dict):
        step = json.dumps(step, separators=(",", ":"), ensure_ascii=False)
    if isinstance(step, str):
        step = Frame(0x80 | TEXT, step.encode())
    elif isinstance(step, bytes):
        step = Frame(0x80 | BINARY, step)
    size = len(step.payload)
    if size < 126:
        head = bytes((step.first, 0x80 | size))
    elif size < 65536:
        head = bytes((step.first, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((step.first, 0x80 | 127)) + size.to_bytes(8, "big")
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(step.payload))
    connection.send(head + mask + masked)


def _receive(connection: Connection) -> list[Any]:
    first, size = connection.exactly(2)
    if size == 126:
        size = int.from_bytes(connection.exactly(2), "big")
    elif size == 127:
        size = int.from_bytes(connection.exactly(8), "big")
    payload = connection.exactly(size)
    flags = [] if first & 0xF0 == 0x80 else [first & 0xF0]
    if first & 0x0F == CLOSE:
        return [CLOSE, int.from_bytes(payload[:2], "big"), payload[2:].decode(), *flags]
    return [first & 0x0F, normal.text_of(payload), *flags]
