"""The socket between server and worker: frames arrive whole, in order, and together where they can."""

import asyncio
import socket

import msgspec
import pytest

from inferstream.concurrency import outgoing
from inferstream.processes.frames import Frame, Logged
from inferstream.processes.link import Link


class Cancel(Frame, tag=1):
    call: int


DECODER = msgspec.msgpack.Decoder(Cancel | Logged)


class Ends:
    """Two links and what came through."""

    def __init__(self) -> None:
        self.frames = []
        self.lost = asyncio.Event()
        left, self.right_socket = socket.socketpair()
        self.left = Link(left, DECODER, self.frames.append, self.lost.set)
        self.right = Link(self.right_socket, DECODER, self.frames.append, lambda: None)

    async def arrived(self, count: int) -> list:
        async with asyncio.timeout(5):
            while len(self.frames) < count:
                await asyncio.sleep(0)
        return self.frames


async def test_frames_of_any_size_arrive_in_order() -> None:
    ends = Ends()
    sizes = [0, 1, 10, 300_000, 2, 5_000_000, 3, 70_000, 1]
    for size in sizes:
        ends.right.send(Logged("m" * size, "", {}))
    assert [len(frame.model) for frame in await ends.arrived(len(sizes))] == sizes
    ends.left.close()
    ends.right.close()


async def test_ready_frames_are_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgoing, "perf_counter", lambda: 1.0)  # however long the system lets them wait
    ends = Ends()
    writes = []
    send = ends.right._write
    ends.right._write = lambda: (writes.append(1), send())
    for i in range(100):
        ends.right.send(Cancel(i))
    assert [frame.call for frame in await ends.arrived(100)] == list(range(100))
    assert len(writes) == 2, "the first leaves at once, the others with each other"
    ends.left.close()
    ends.right.close()


async def test_full_socket_buffers_without_blocking() -> None:
    ends = Ends()
    ends.left._loop.remove_reader(ends.left._descriptor)
    for i in range(2000):
        ends.right.send(Logged("x" * 1000, str(i), {}))
        await asyncio.sleep(0)
    assert not ends.frames
    ends.left._loop.add_reader(ends.left._descriptor, ends.left._read)
    assert [frame.version for frame in await ends.arrived(2000)] == [str(i) for i in range(2000)]
    ends.left.close()
    ends.right.close()


async def test_peer_disconnect_is_noticed_once() -> None:
    ends = Ends()
    ends.right.send(Cancel(1))
    ends.right.close()
    async with asyncio.timeout(5):
        await ends.lost.wait()
    assert [frame.call for frame in ends.frames] == [1]
    assert ends.left.send(Cancel(2)) > 0


async def test_invalid_data_closes_the_socket() -> None:
    ends = Ends()
    ends.right_socket.send(b"\x05\0\0\0\0\0\0\0hello")
    async with asyncio.timeout(5):
        await ends.lost.wait()
    ends.right.close()
