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


async def test_reading_resumes_after_the_last_pause_reason_is_released() -> None:
    transport, resumed = Transport(), asyncio.Event()
    reading = Reading(transport, resumed.set)  # type: ignore[arg-type]
    reading.hold("a")
    reading.hold("b")
    reading.release("a")
    assert (transport.log, reading.held) == (["pause"], True)
    reading.release("b")
    assert (transport.log, reading.held) == (["pause"], False)
    await resumed.wait()
    assert transport.log == ["pause", "resume"]


async def test_buffered_data_is_consumed_before_reading_more() -> None:
    transport, taken = Transport(), []

    def take() -> None:
        taken.append(len(taken))
        if len(taken) < 3:
            reading.hold("full")

    reading = Reading(transport, take)  # type: ignore[arg-type]
    reading.hold("full")
    for _ in range(3):
        assert transport.log == ["pause"]
        reading.release("full")
        await asyncio.sleep(0)
    assert (transport.log, taken) == (["pause", "resume"], [0, 1, 2])


def test_upgraded_protocol_gets_a_reading_transport() -> None:
    async def hand_over() -> None:
        transport = Transport()
        reading = Reading(transport, lambda: None)  # type: ignore[arg-type]
        reading.hold("a")
        reading.close()
        assert (transport.log, reading.held) == (["pause", "resume"], False)
        reading.release("a")
        await asyncio.sleep(0)
        assert transport.log == ["pause", "resume"]

    asyncio.run(hand_over())


async def test_disconnect_is_detected_while_paused() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        transport = Transport(ours)
        reading = Reading(transport, lambda: None)  # type: ignore[arg-type]
        reading.hold("a")
        theirs.close()
        async with asyncio.timeout(5):
            while "abort" not in transport.log:
                await asyncio.sleep(0)
