"""Worker processes without processes: both ends of each link run on the virtual loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec

from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.workers.client import WorkerClient
from inferstream.dataplane.workers.instance import Instance, Models
from inferstream.dataplane.workers.peer import ConnectedFrontEnd
from inferstream.dataplane.workers.pool import Group
from inferstream.processes import shared_memory
from inferstream.processes.frames import encode_foreign
from inferstream.telemetry.workers import WorkerMeters

from .ledger import Ledger

LATENCY = (0.0, 0.0, 0.0, 0.0005, 0.003)
"""Seconds from one end of a link to the other."""

INSTANCE = 1


class VirtualLink:
    """One end. Frames arrive in their order, after some time."""

    def __init__(self, ledger: Ledger, random: Random) -> None:
        self._ledger = ledger
        self._random = random
        self._encode = msgspec.msgpack.Encoder(enc_hook=encode_foreign).encode
        self._sent: deque[bytes] = deque()
        self._last = 0.0
        self.other: VirtualLink
        self.closed = False

    def connected(self, decoder: Any, received: Callable[[Any], None], lost: object = None) -> "VirtualLink":
        self._decode, self._received = decoder.decode, received
        return self

    def send(self, frame: Any) -> int:
        data = self._encode(frame)
        if not self.closed and not self.other.closed:
            loop = self._ledger.loop
            self._last = max(self._last, loop.time() + self._random.choice(LATENCY))
            self._sent.append(data)
            loop.outside(self._last - loop.time(), self._arrive)
        return len(data)

    def _arrive(self) -> None:
        if self._sent and not self.other.closed:
            self.other._received(self.other._decode(self._sent.popleft()))

    def drain(self) -> None:
        """Some of what the other end sent arrives before its end is noticed."""
        for _ in range(self._random.randrange(len(self.other._sent) + 1)):
            self.other._arrive()

    def close(self) -> None:
        self.closed = True


class VirtualProcess(WorkerClient):
    def __init__(self, ledger: Ledger, random: Random, local: Local, pid: int) -> None:
        self._ledger = ledger
        with shared_memory.create_memory() as requests, shared_memory.create_memory() as responses:
            super().__init__(requests, responses)
            ours, its = VirtualLink(ledger, random), VirtualLink(ledger, random)
            ours.other, its.other = its, ours
            self._connect(pid, ours.connected, {}, self._lose)  # type: ignore[arg-type]
            models = Models()
            models.instances[INSTANCE] = Instance(local, models)
            self.peer = ConnectedFrontEnd(
                its.connected,  # type: ignore[arg-type]
                (requests, responses),
                models,
                {},
                lambda: None,
            )
        self.its = its
        self.instances = models.instances
        self.local = local
        self.models[INSTANCE] = True

    def die(self) -> None:
        """It is killed, or has no model left: what it runs has no effect from now on."""
        self.its.close()
        self.peer.end()
        self._lose("has ended")


class VirtualGroup(Group):
    """Two workers. One that ends is replaced."""

    def __init__(self, ledger: Ledger, random: Random, make: Callable[[], Local]) -> None:
        super().__init__(WorkerMeters(SimpleNamespace()))  # type: ignore[arg-type]
        self._ledger = ledger
        self._random = random
        self._make = make
        self._ending: set[asyncio.Task[None]] = set()
        self.stopped = False
        self._slots = [SimpleNamespace(process=self._new()) for _ in range(2)]

    def _new(self) -> VirtualProcess:
        return VirtualProcess(self._ledger, self._random, self._make(), 1)

    @property
    def size(self) -> int:
        return 2

    @property
    def empty(self) -> bool:
        return True

    @property
    def processes(self) -> list[VirtualProcess]:
        return [slot.process for slot in self._slots if slot.process is not None]

    def crash(self, process: VirtualProcess) -> None:
        slot = next((slot for slot in self._slots if slot.process is process), None)
        if slot is None or self.stopped:
            return
        self._ledger.crashed = True
        slot.process = None
        process.die()
        self._end(process)
        self._ledger.loop.outside(self._random.choice((0.0, 0.002, 0.03)), self._replace, slot)

    def _end(self, process: VirtualProcess) -> None:
        task = asyncio.get_running_loop().create_task(process.local.unload())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _replace(self, slot: Any) -> None:
        if not self.stopped:
            slot.process = self._new()

    def replace(self, process: WorkerClient, why: str) -> None:
        assert isinstance(process, VirtualProcess)
        self.crash(process)

    def meter(self, instance: int, meters: object) -> None:
        """The meters of workers are no part of a schedule."""

    async def unload(self, instance: int) -> None:
        for process in self.processes:
            process.models.clear()
            process.instances.clear()
            await process.local.unload()

    async def stop(self) -> None:
        self.stopped = True
        for process in self.processes:
            process.die()
        if self._ending:
            await asyncio.wait(self._ending)
