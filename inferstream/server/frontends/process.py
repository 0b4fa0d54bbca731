"""The supervisor's handle on a front-end process."""

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
    """The process of one front end. It starts operations in the order in which they are sent."""

    def __init__(
        self,
        index: int,
        handlers: "Callable[[FrontEndProcess], Handlers]",
        variables: dict[str, str],
        memory: Sequence[int],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._intake, theirs = descriptors.create_intake()
        program = Program(SCRIPT, sys.executable, variables, MODULE)
        try:
            with theirs:
                self._child = Child(program, (theirs.fileno(), *memory), self._handle_exit)
        except OSError:
            self._intake.close()
            raise
        own: Handlers = {
            frames.Counted: self._store_families,
            **RECEIVERS,
        }
        self._endpoint = Endpoint(
            partial(Link, self._child.socket), {**handlers(self), **own}, self._child.kill
        )
        self.send, self.ask, self.kill = self._endpoint.send, self._endpoint.ask, self._child.kill
        self.index = index
        """The index among the front ends. The supervisor has index 0."""
        self.pid = self._child.pid
        self.families: list[Family] = []
        """The latest metrics."""
        self.serves = False
        """Whether the ports are open."""
        self.served = False
        """Whether the ports have ever been open."""
        self.ended = asyncio.Event()

    @property
    def how(self) -> str:
        """A description of how the process exited."""
        return self._child.how

    def do(self, question: Query[A], seconds: float | None) -> asyncio.Task[A]:
        """Send an operation to the front end, and return a task that waits until it is done.

        The task raises the operation's error, or WorkerLost if the process exits. A front end that takes
        longer than `seconds` is killed.
        """
        doing = self._loop.create_task(self._wait_for_operation(self.ask(question), seconds))
        doing.add_done_callback(lambda task: task.cancelled() or task.exception())  # may never be awaited
        return doing

    async def _wait_for_operation(self, done: asyncio.Future[A], seconds: float | None) -> A:
        try:
            async with asyncio.timeout(seconds):
                return await done
        except TimeoutError:
            self.kill()
            raise self._build_loss_error() from None

    async def count(self, seconds: float) -> None:
        """Fetch the current metrics. If that takes longer than `seconds`, keep the previous ones."""
        with suppress(TimeoutError, WorkerLost):
            async with asyncio.timeout(seconds):
                self.families = await self.ask(frames.Count())

    async def wait_for_release(self, model: int) -> None:
        """Wait until the front end has released this model."""
        with suppress(WorkerLost):
            await self.ask(frames.Release(model))

    def introduce(self, worker: int, group: int, process: WorkerProcess) -> None:
        """Connect the front end to a worker. Raises OSError."""
        process.introduce(self._intake, _Encoded(frames.WorkerConnection(worker, group, process.pid)))

    async def end(self, seconds: float) -> bool:
        """Make the front end close its ports, unload its models and exit within `seconds`.

        Returns False if it had to be killed.
        """
        self.send(frames.Shutdown(seconds - 2 * REAPED))
        late = partial(logger.error, "front end %d did not end within %g s; killing it", self.pid, seconds)
        return await self._child.wait_for_end(self.ended, seconds - REAPED, late)

    def _store_families(self, frame: frames.Counted) -> None:
        self.families = frame.families

    def _build_loss_error(self) -> WorkerLost:
        return WorkerLost(f"the front end {self.pid} {self.how}")

    def _handle_exit(self) -> None:
        self._endpoint.end(self._build_loss_error())
        self._intake.close()
        self.serves = False
        self.ended.set()
