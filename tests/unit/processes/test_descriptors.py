"""Ways between processes: both ends are the same memory and one socket, and nothing is left open."""

import asyncio
import os
import socket

from inferstream.processes.descriptors import Intake, create_intake, pass_connection
from inferstream.processes.shared_memory import Incoming, Outgoing


def nothing() -> None:
    """Nobody asks for the memory back."""


async def test_socket_pair_connects_two_unrelated_processes() -> None:
    before = len(os.listdir("/proc/self/fd"))
    to_worker, worker = create_intake()
    to_caller, caller = create_intake()
    ends: dict[str, tuple[bytes, socket.socket]] = {}
    there = asyncio.Event()

    def at_worker(message: bytes, end: socket.socket, requests: int, responses: int) -> None:
        ends["worker"] = (message, end)
        memory["seen"] = Incoming(requests, nothing)

    def at_caller(message: bytes, end: socket.socket, requests: int, responses: int) -> None:
        ends["caller"] = (message, end)
        memory["written"] = Outgoing(requests)
        there.set()

    memory: dict[str, Incoming | Outgoing] = {}
    intakes = Intake(worker, at_worker), Intake(caller, at_caller)
    pass_connection(to_worker, to_caller, b"whose it is")
    async with asyncio.timeout(5):
        await there.wait()
    assert ends["caller"][0] == b"whose it is"
    ends["caller"][1].send(b"hello")
    assert ends["worker"][1].recv(5) == b"hello"
    assert not any(os.get_inheritable(end.fileno()) for _, end in ends.values())
    written, seen = memory["written"], memory["seen"]
    assert isinstance(written, Outgoing)
    assert isinstance(seen, Incoming)
    place = written.put(b"tensor")
    assert place is not None
    assert bytes(seen.view(place, 6)) == b"tensor"
    for _, end in ends.values():
        end.close()
    for one in intakes:
        one.close()
    to_worker.close()
    to_caller.close()
    written.close()
    seen.close()
    assert len(os.listdir("/proc/self/fd")) == before


async def test_intake_closes_with_its_other_end() -> None:
    ours, theirs = create_intake()
    Intake(theirs, lambda *_: None)
    ours.close()
    async with asyncio.timeout(5):
        while theirs.fileno() >= 0:
            await asyncio.sleep(0)
