"""The supervisor's view of one front end."""

import asyncio
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from ...dataplane.workers.process import WorkerProcess
from ...errors import WorkerLost
from ...processes import descriptors
from ...processes.custom_metrics import RECEIVERS
from ...processes.endpoint import Endpoint, Handlers
from ...processes.frames import Query
from ...processes.link import Link
from ...processes.spawning import REAPED, Child, Program
from ...telemetry.families import Family
from . import frames

logger = logging.getLogger("inferstream.server")

SCRIPT = str(Path(__file__).parents[1] / "bootstrap.py")
MODULE = "inferstream.server.frontends.front_end"

A = TypeVar("A")

_Encoded = msgspec.msgpack.Encoder().encode


class FrontEndProcess:
    """The process of one front end. It begins operations in the order of the calls."""

    def __init__(
        self,
        index: int,
        handlers: "Callable[[FrontEndProcess], Handlers]",
        variables: dict[str, str],
        memory: Sequence[int],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._intake, theirs = descriptors.intake()
        program = Program(SCRIPT, sys.executable, variables, MODULE)
        try:
            with theirs:
                self._child = Child(program, (theirs.fileno(), *memory), self._gone)
        except OSError:
            self._intake.close()
            raise
        own: Handlers = {
            frames.Counted: self._counted,
            **RECEIVERS,
        }
        self._endpoint = Endpoint(
            partial(Link, self._child.socket), {**handlers(self), **own}, self._child.kill
        )
        self.send, self.ask, self.kill = self._endpoint.send, self._endpoint.ask, self._child.kill
        self.index = index
        """Its number among the front ends; the supervisor is 0."""
        self.pid = self._child.pid
        self.families: list[Family] = []
        """Its latest meters."""
        self.serves = False
        """Whether its ports are open."""
        self.served = False
        """Whether its ports have been open."""
        self.ended = asyncio.Event()

    @property
    def how(self) -> str:
        """How the process ended, as a text."""
        return self._child.how

    def do(self, question: Query[A], seconds: float | None) -> asyncio.Task[A]:
        """Ask for an operation; the task waits until it is done.

        The task raises the operation's error, and WorkerLost when the process ends. A front end that takes longer
        than `seconds` is killed.
        """
        doing = self._loop.create_task(self._doing(self.ask(question), seconds))
        doing.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may not be awaited
        return doing

    async def _doing(self, done: asyncio.Future[A], seconds: float | None) -> A:
        try:
            async with asyncio.timeout(seconds):
                return await done
        except TimeoutError:
            self.kill()
            raise self._lost() from None

    async def count(self, seconds: float) -> None:
        """Fetch its present meters, and keep the last ones if that takes longer than `seconds`."""
        with suppress(TimeoutError, WorkerLost):
            async with asyncio.timeout(seconds):
                self.families = await self.ask(frames.Count())

    async def released(self, model: int) -> None:
        """Wait until it has released this model."""
        with suppress(WorkerLost):
            await self.ask(frames.Release(model))

    def introduce(self, worker: int, group: int, process: WorkerProcess) -> None:
        """Connect it to a worker. Raises OSError."""
        process.introduce(self._intake, _Encoded(frames.WorkerConnection(worker, group, process.pid)))

    async def end(self, seconds: float) -> bool:
        """Let it close, unload and end within `seconds`; False if it had to be killed."""
        self.send(frames.Shutdown(seconds - 2 * REAPED))
        late = partial(logger.error, "front end %d did not end within %g s; killing it", self.pid, seconds)
        return await self._child.stopped(self.ended, seconds - REAPED, late)

    def _counted(self, frame: frames.Counted) -> None:
        self.families = frame.families

    def _lost(self) -> WorkerLost:
        return WorkerLost(f"the front end {self.pid} {self.how}")

    def _gone(self) -> None:
        self._endpoint.end(self._lost())
        self._intake.close()
        self.serves = False
        self.ended.set()
