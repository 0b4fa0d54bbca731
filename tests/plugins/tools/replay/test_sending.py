"""Requests that are sent again: their headers, and clients that leave."""

import asyncio
import socket

import httpx
import pytest

from inferstream.plugins.tools.replay.records import BeginLine, EndLine, Line, Recorded, RecordedEvent
from inferstream.plugins.tools.replay.sending import Destination, ReplayedAnswer, send_recording


def left(*headers: tuple[str, str]) -> Recorded:
    """A request of a client that left before a byte of its response."""
    recorded = Recorded(Line("1", 0.0, "http", "v2", "m", [], BeginLine("/slow", [*headers], "POST")))
    recorded.events = [RecordedEvent(0.0, "in", "{}")]
    recorded.end = EndLine("cancelled", 499)
    return recorded


async def sent(recorded: Recorded, port: int) -> ReplayedAnswer:
    async with asyncio.timeout(20):
        return await send_recording(Destination(f"http://127.0.0.1:{port}", "", {}, 0), recorded)


def taken(listening: socket.socket) -> bytes:
    """What a client sends until it leaves, to a server that says nothing."""
    connection, _ = listening.accept()
    with connection:
        connection.settimeout(20)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


async def sent_to_silence(recorded: Recorded) -> tuple[ReplayedAnswer, bytes]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        port = listening.getsockname()[1]
        came, request = await asyncio.gather(sent(recorded, port), asyncio.to_thread(taken, listening))
    return came, request


async def test_early_disconnect_still_sends_request() -> None:
    came, request = await sent_to_silence(left())
    assert came == ReplayedAnswer(499, [])
    assert request.startswith(b"POST /slow ")
    assert request.endswith(b"\r\n\r\n{}")


async def test_replay_fails_without_server() -> None:
    with socket.socket() as silent, pytest.raises(httpx.ConnectError):
        silent.bind(("127.0.0.1", 0))  # and does not listen
        await sent(left(), silent.getsockname()[1])


async def test_only_connection_headers_are_dropped() -> None:
    own = (("te", "trailers"), ("host", "old"))
    _, request = await sent_to_silence(left(*own, ("tenant-id", "7"), ("hostile", "no")))
    names = {line.partition(b":")[0].lower() for line in request.split(b"\r\n")}
    assert {b"tenant-id", b"hostile"} <= names
    assert b"te" not in names
    assert b"old" not in request
