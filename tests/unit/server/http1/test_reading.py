"""Reading from a connection stops while there is a reason."""

import asyncio
import socket
from typing import Any

from inferstream.server.http1.reading import Reading


class Transport:
    def __init__(self, sock: socket.socket | None = None) -> None:
        self.log: list[str] = []
        self._sock = sock

    def pause_reading(self) -> None:
        self.log.append("pause")

    def resume_reading(self) -> None:
        self.log.append("resume")

    def abort(self) -> None:
        self.log.append("abort")

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str) -> Any:
        return self._sock


async def test_the_last_reason_lets_reading_resume() -> None:
    transport, resumed = Transport(), asyncio.Event()
    reading = Reading(transport, resumed.set)  # type: ignore[arg-type]
    reading.hold("a")
    reading.hold("b")
    reading.release("a")
    assert (transport.log, reading.held) == (["pause"], True)
    reading.release("b")
    assert (transport.log, reading.held) == (["pause", "resume"], False)
    await resumed.wait()


async def test_a_client_that_leaves_meanwhile_is_seen() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        transport = Transport(ours)
        reading = Reading(transport, lambda: None)  # type: ignore[arg-type]
        reading.hold("a")
        theirs.close()
        async with asyncio.timeout(5):
            while "abort" not in transport.log:
                await asyncio.sleep(0)
