"""The supervisor's view of one front end."""

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from ...concurrency.questions import Questions
from ...dataplane.workers.shared import SharedProcess
from ...errors import WorkerLost
from ...processes import descriptors
from ...processes.custom_metrics import RECEIVERS
from ...processes.frames import unpack_failure
from ...processes.link import Link
from ...processes.spawning import REAPED, Child, Program
from ...telemetry.sums import Family
from . import frames
from .access_log import SharedLog

logger = logging.getLogger("inferstream.server")

SCRIPT = str(Path(__file__).parents[1] / "bootstrap.py")
MODULE = "inferstream.server.frontends.front_end"

_Encoded = msgspec.msgpack.Encoder().encode


class FrontEndProcess:
    """The process of one front end. It begins operations in the order of the calls."""

    def __init__(
        self,
        index: int,
        query: "Callable[[FrontEndProcess, frames.Query], None]",
        replace: Callable[[frames.Replace], None],
        log: SharedLog,
        variables: dict[str, str],
        loads: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._intake, theirs = descriptors.intake()
        program = Program(SCRIPT, sys.executable, variables, MODULE)
        try:
            with theirs:
                self._child = Child(program, (theirs.fileno(), loads), self._gone)
        except OSError:
            self._intake.close()
            raise
        self._operations = count(1)
        self._waiting: Questions[None] = Questions()
        self._held: Questions[None] = Questions()
        self._asked: Questions[bytes] = Questions()
        self._frames: dict[type[Any], Callable[[Any], object]] = {
            frames.Done: self._done,
            frames.Released: lambda frame: self._held.settle(frame.model, None),
            frames.Query: lambda frame: query(self, frame),
            frames.Counted: self._counted,
            frames.Answered: self._answered,
            frames.Replace: replace,
            frames.Subscribed: lambda frame: log.wanted(self, frame.on),
            frames.Records: lambda frame: log.passed(self, frame),
            **RECEIVERS,
        }
        decoder = msgspec.msgpack.Decoder(frames.ToSupervisor)
        self._link = Link(self._child.socket, decoder, self._received, self._child.kill)
        self.send = self._link.send
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

    def do(
        self, make: Callable[[int], frames.FrontEndOperation], seconds: float | None
    ) -> asyncio.Task[None]:
        """Send an operation; the task waits until it is done.

        The task raises the operation's error, and WorkerLost when the process ends. A front end that takes longer
        than `seconds` is killed.
        """
        number = next(self._operations)
        done = self._waiting.ask(number)
        if self.ended.is_set():
            done.set_exception(self._lost())
        self.send(make(number))
        doing = self._loop.create_task(self._doing(done, seconds))
        doing.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may not be awaited
        return doing

    async def _doing(self, done: asyncio.Future[None], seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await done
        except TimeoutError:
            self.kill()
            raise self._lost() from None

    async def count(self, seconds: float) -> None:
        """Fetch its present meters, and keep the last ones if that takes longer than `seconds`."""
        with suppress(TimeoutError, WorkerLost):
            async with asyncio.timeout(seconds):
                await self.do(frames.Count, None)

    async def ask(self, subject: str, text: str) -> bytes:
        """Its answer to a question of another front end. Raises WorkerLost, and what the answer raises."""
        number = next(self._operations)
        answer = self._asked.ask(number)
        if self.ended.is_set():
            raise self._lost()
        self.send(frames.Ask(number, subject, text))
        return await answer

    def hold(self, model: int) -> None:
        """Record that it holds this model until it reports the release."""
        self._held.ask(model)

    async def released(self, model: int) -> None:
        """Wait until it has released this model."""
        held = self._held.get(model)
        if held is not None:
            await asyncio.shield(held)

    def introduce(self, worker: int, group: int, process: SharedProcess) -> None:
        """Connect it to a worker. Raises OSError."""
        process.introduce(self._intake, _Encoded(frames.WorkerConnection(worker, group, process.pid)))

    async def end(self, seconds: float) -> bool:
        """Let it close, unload and end within `seconds`; False if it had to be killed."""
        self.do(lambda operation: frames.Shutdown(operation, seconds - 2 * REAPED), None)
        late = partial(logger.error, "front end %d did not end within %g s; killing it", self.pid, seconds)
        return await self._child.stopped(self.ended, seconds - REAPED, late)

    def kill(self) -> None:
        self._child.kill()

    def _received(self, frame: Any) -> None:
        self._frames[type(frame)](frame)

    def _done(self, frame: frames.Done) -> None:
        if frame.failure is not None:
            self._waiting.fail(frame.operation, unpack_failure(frame.failure))
        else:
            self._waiting.settle(frame.operation, None)

    def _counted(self, frame: frames.Counted) -> None:
        self.families = frame.families
        self._done(frames.Done(frame.operation))

    def _answered(self, frame: frames.Answered) -> None:
        if frame.failure is not None:
            self._asked.fail(frame.question, unpack_failure(frame.failure))
        else:
            self._asked.settle(frame.question, frame.data)

    def _lost(self) -> WorkerLost:
        return WorkerLost(f"the front end {self.pid} {self.how}")

    def _gone(self) -> None:
        self._link.drain()
        self._link.close()
        self._intake.close()
        self.serves = False
        self.ended.set()
        self._waiting.fail_all(self._lost())
        self._asked.fail_all(self._lost())
        for model in list(self._held):
            self._held.settle(model, None)
