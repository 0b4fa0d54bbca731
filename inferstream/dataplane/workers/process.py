"""One worker process, seen from the server."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import msgspec

from ...errors import InferstreamError, ModelError, ModelLoadFailed, Overloaded, WorkerLost
from ...handlers import HttpRequest, HttpResponse
from ...rows import RowErrors
from ...telemetry.custom import CUSTOM
from ...types import MetadataModelResponse
from ..call import Call
from . import arena, frames
from .link import Link
from .losses import NeverStarted, Suspected
from .packing import unpack_failure, unpack_response
from .remote import RemoteCall
from .spawning import Child, Program
from .tally import StepTally

logger = logging.getLogger("inferstream.worker")

BLOCKED = 2.0
"""Seconds without an answer to a ping after which a worker's event loop counts as blocked."""

Hung = Callable[["WorkerProcess"], None]
"""Told of a worker in which a call does not end."""


class WorkerProcess:
    """Runs calls in a process of its own; every one of them ends, whatever happens to that process."""

    def __init__(self, program: Program, start: frames.Start, tally: StepTally) -> None:
        self._loop = asyncio.get_running_loop()
        self._freeing = False
        with arena.created() as requests, arena.created() as responses, ExitStack() as undo:
            self._incoming = arena.Incoming(responses, self._freed)
            undo.callback(self._incoming.close)
            self._outgoing = arena.Outgoing(requests)
            undo.callback(self._outgoing.close)
            self._child = Child(program, (requests, responses), self._gone)
            undo.pop_all()
        self._flags = self._incoming.flags
        self._tally = tally
        self._frames: dict[type[frames.Frame], Callable[[Any], object]] = {
            frames.Answer: self._answer,
            frames.Item: self._item,
            frames.Full: self._full,
            frames.End: self._end,
            frames.Failed: lambda frame: self._over(frame.call, unpack_failure(frame.failure)),
            frames.Partly: self._partly,
            frames.Asked: self._asked,
            frames.Described: lambda frame: self._told(frame.call, frame.metadata),
            frames.Told: lambda frame: self._told(frame.call, frame.response),
            frames.Loaded: self._loaded,
            frames.LoadFailed: self._load_failed,
            frames.Unloaded: lambda frame: self._settle(frame.instance, None),
            frames.Readiness: self._readiness,
            frames.Logged: lambda frame: CUSTOM.observe(frame.model, frame.version, frame.values),
            frames.Registered: lambda frame: CUSTOM.register(frame.name, frame.description),
            frames.Stepped: tally.came,
            frames.Pong: lambda _: self._pong.set(),
            frames.Free: lambda frame: self._outgoing.free(frame.places),
        }
        self._link = Link(
            self._child.socket, msgspec.msgpack.Decoder(frames.FromWorker), self._received, self._child.kill
        )
        self._calls: dict[int, RemoteCall] = {}
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._changes: dict[int, asyncio.Future[frames.Loaded | None]] = {}
        self._number = 0
        self._pong = asyncio.Event()
        self.pid = self._child.pid
        self.models: dict[int, bool] = {}
        """Instances that are loaded here, and whether each is ready."""
        self.answered = 0
        self.ended = asyncio.Event()
        self._link.send(start)

    @property
    def active(self) -> int:
        """Calls that have not ended in the worker, those included that nobody waits for any more."""
        return len(self._calls)

    async def load(self, frame: frames.Load) -> frames.Loaded:
        """Load a model. Raises ModelLoadFailed, and WorkerLost when the process ends over it."""
        loaded = await self._change(frame.instance, frame)
        assert loaded is not None
        return loaded

    async def unload(self, instance: int) -> None:
        """Run a model's `unload`."""
        if self.models.pop(instance, None) is not None and not self.ended.is_set():
            try:
                await self._change(instance, frames.Unload(instance))
            except WorkerLost:
                return  # it went with the process

    async def _change(self, instance: int, frame: frames.Load | frames.Unload) -> frames.Loaded | None:
        if self.ended.is_set():
            raise WorkerLost(f"The worker process {self._child.how}.")
        change: asyncio.Future[frames.Loaded | None] = self._loop.create_future()
        self._changes[instance] = change
        self._link.send(frame)
        try:
            return await change
        finally:
            self._changes.pop(instance, None)

    def _settle(self, instance: int, result: frames.Loaded | None, error: Exception | None = None) -> None:
        change = self._changes.get(instance)
        if change is None or change.done():
            return
        if error is not None:
            change.set_exception(error)
        else:
            change.set_result(result)

    def _loaded(self, frame: frames.Loaded) -> None:
        if frame.instance not in self._changes:
            self._link.send(frames.Unload(frame.instance))  # whoever wanted it no longer waits
            return
        self.models[frame.instance] = True  # here, so that nothing comes between this and the process's end
        self._settle(frame.instance, frame)

    def _load_failed(self, frame: frames.LoadFailed) -> None:
        self._settle(frame.instance, None, ModelLoadFailed(frame.message))

    def _readiness(self, frame: frames.Readiness) -> None:
        if frame.instance in self.models:
            self.models[frame.instance] = frame.ready

    def open(self, call: Call, instance: int, window: int, limit: float | None, hung: Hung) -> RemoteCall:
        """Send a call to the worker. Raises what the request's own values make impossible to send."""
        number = self._next_number()
        self._flags[number] = 0
        remote = RemoteCall(number, call, window, limit, lambda: hung(self), self._link)
        remote.send(instance, self._outgoing)
        self._calls[number] = remote
        return remote

    def _next_number(self) -> int:
        """One that no call has: where its flag lies another would be taken for not started. Raises Overloaded."""
        if len(self._calls) + len(self._questions) >= arena.FLAGS - 1:
            raise Overloaded(f"A worker process has {arena.FLAGS} calls in progress already.")
        while True:
            self._number = self._number % (arena.FLAGS - 1) + 1
            if self._number not in self._calls and self._number not in self._questions:
                return self._number

    async def describe(self, instance: int) -> MetadataModelResponse:
        """What a model says of itself. Raises WorkerLost, or what the model failed with."""
        described: bytes = await self._ask(lambda call: frames.Describe(call, instance))
        return MetadataModelResponse.model_validate_json(described)

    async def ask(self, instance: int, request: HttpRequest) -> HttpResponse:
        """The answer of one of a model's own routes. Raises WorkerLost, or what the model failed with."""
        response: HttpResponse = await self._ask(lambda call: frames.Ask(call, instance, request))
        return response

    async def _ask(self, question: Callable[[int], frames.Frame]) -> Any:
        if self.ended.is_set():
            raise WorkerLost(f"The worker process {self._child.how}.")
        number = self._next_number()
        answer = self._questions[number] = self._loop.create_future()
        self._link.send(question(number))
        try:
            return await answer
        finally:
            del self._questions[number]

    def _received(self, frame: frames.Frame) -> None:
        self._frames[type(frame)](frame)

    def _answer(self, frame: frames.Answer) -> None:
        # Unpacked even when nobody waits: dropping the tensors is what frees their place.
        response = unpack_response(frame.response, self._incoming.view)
        remote = self._calls.pop(frame.call, None)
        if remote is not None:
            self.answered += 1
            remote.answered(response)

    def _item(self, frame: frames.Item) -> None:
        response = unpack_response(frame.response, self._incoming.view)
        remote = self._calls.get(frame.call)
        if remote is not None:
            remote.came(response)

    def _full(self, frame: frames.Full) -> None:
        remote = self._calls.get(frame.call)
        if remote is not None:
            remote.full()

    def _end(self, frame: frames.End) -> None:
        if frame.lingering and frame.call in self._calls:
            self._calls[frame.call].lingers()
        else:
            self._over(frame.call, None)

    def _partly(self, frame: frames.Partly) -> None:
        rest = None if frame.response is None else unpack_response(frame.response, self._incoming.view)
        errors = {row: ModelError(*error) for row, error in frame.errors.items()}
        self._over(frame.call, RowErrors(errors, rest))

    def _over(self, number: int, error: InferstreamError | None) -> None:
        remote = self._calls.pop(number, None)
        if remote is not None:
            self.answered += 1
            remote.ended(error)
            return
        question = self._questions.get(number)
        if question is not None and error is not None and not question.done():
            question.set_exception(error)

    def _asked(self, frame: frames.Asked) -> None:
        remote = self._calls.get(frame.call)
        if remote is not None:
            remote.asked(frame.count)

    def _told(self, call: int, answer: Any) -> None:
        question = self._questions.get(call)
        if question is not None and not question.done():
            question.set_result(answer)

    async def blocked(self) -> bool:
        """Whether the worker's event loop does not run, so that nothing in it can get on."""
        self._pong.clear()
        self._link.send(frames.Ping())
        try:
            async with asyncio.timeout(BLOCKED):
                await self._pong.wait()
        except TimeoutError:
            return not self.ended.is_set()
        return False

    async def idle(self) -> None:
        """Wait until no call is running that somebody waits for."""
        while any(not remote.cancelled for remote in self._calls.values()):  # noqa: ASYNC110  # rare
            await asyncio.sleep(0.05)

    async def stop(self, grace: float) -> None:
        """Unload everything and end; after `grace` seconds without mercy."""
        self._link.send(frames.Stop(grace))
        try:
            async with asyncio.timeout(grace + 0.5):
                await self.ended.wait()
        except TimeoutError:
            logger.error("worker %d did not end within %g s; killing it", self.pid, grace)
            self.kill()

    def kill(self) -> None:
        """End the process now."""
        self._child.kill()

    @property
    def how(self) -> str:
        """How the process ended, for people."""
        return self._child.how

    def _gone(self) -> None:
        """The process has ended: whatever it had not finished ends too, now."""
        self._link.drain()
        self._link.close()
        self.ended.set()
        self._pong.set()
        self.models.clear()
        self._tally.gone()
        lost = f"The worker process that ran this request {self._child.how}."
        for number, remote in list(self._calls.items()):
            started = self._flags[number]
            remote.ended(WorkerLost(lost) if started else NeverStarted(lost))
        self._calls.clear()
        self._incoming.close()
        self._outgoing.close()
        blame = Suspected if len(self._changes) > 1 else WorkerLost
        error = blame(f"its worker process {self._child.how}")
        for change in self._changes.values():
            if not change.done():
                change.set_exception(error)
        for question in self._questions.values():
            if not question.done():
                question.set_exception(WorkerLost(lost))

    def _freed(self) -> None:
        """Called from whatever thread drops the last view of a tensor."""
        if not self._freeing:
            self._freeing = True
            try:
                self._loop.call_soon_threadsafe(self._give_back)
            except RuntimeError:
                return  # the loop has closed, and the worker with it

    def _give_back(self) -> None:
        self._freeing = False
        self._link.send(frames.Free(self._incoming.take_freed()))
