"""A worker from the inside: loads models and runs calls until the server tells it to end, or is gone."""

import asyncio
import gc
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import InferstreamError
from ...repository.loading import load_model
from ...settings import ModelSettings
from ...telemetry.logs import configure_logging
from ...telemetry.steps import StepMeters
from ...types import Headers
from ..call import Call
from ..cloudevents import CloudEvents
from ..execution.base import BuildAnswering
from ..execution.failures import translated
from ..execution.local import Local
from ..handler import Handler
from ..reply import Reply
from ..stages.limits import Limits
from . import frames
from .arena import Incoming, Outgoing
from .link import Link
from .packing import TENSORS, pack_failure, unpack_failure, unpack_request
from .running import LaterRequests, RunningCall

if TYPE_CHECKING:
    from ...telemetry.tracing import Tracing

logger = logging.getLogger("inferstream.worker")

WATCH = 0.25
"""Seconds between two looks at whether a model says of itself that it is ready, and at what its steps do."""


class Instance:
    """One loaded model, with the limit of what it runs at once in this process."""

    def __init__(self, local: Local, flags: memoryview) -> None:
        self.local = local
        self.ready = True
        self.steps = StepMeters()
        local.meter_steps(self.steps)
        self.handler: Handler = Limits(
            Started(local, flags), local.slots, 2**31, local.settings.priority_aging
        )


class Started:
    """Notes where the server can read it, even after this process has died, that a call's model code runs."""

    def __init__(self, inner: Handler, flags: memoryview) -> None:
        self._inner = inner
        self._flags = flags

    def __call__(self, call: Call) -> Awaitable[Reply]:
        assert isinstance(call, RunningCall)
        self._flags[call.number] = 1
        return self._inner(call)


class Worker:
    """What the server's frames do here."""

    def __init__(
        self, link: Callable[..., Link], incoming: int, outgoing: int, build_answering: BuildAnswering
    ) -> None:
        self._build_answering = build_answering
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._incoming = Incoming(incoming, self._freed)
        self._outgoing = Outgoing(outgoing)
        self._freeing = False
        self._events: CloudEvents | None = None
        self._tracing: Tracing | None = None
        self._instances: dict[int, Instance] = {}
        self._calls: dict[int, RunningCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._frames: dict[type[frames.Frame], Callable[[Any], object]] = {
            frames.Start: self._start,
            frames.Load: lambda frame: self._spawn(self._load(frame)),
            frames.Unload: lambda frame: self._spawn(self._unload(frame)),
            frames.Open: self._open,
            frames.More: self._more,
            frames.Credit: self._credit,
            frames.Cancel: self._cancel,
            frames.Describe: lambda frame: self._spawn(self._describe(frame)),
            frames.Ask: lambda frame: self._spawn(self._ask(frame)),
            frames.Ping: lambda _: self._send(frames.Pong()),
            frames.Stop: lambda frame: self._spawn(self._stop(frame)),
            frames.Free: lambda frame: self._outgoing.free(frame.places),
        }
        self._link = link(msgspec.msgpack.Decoder(frames.ToWorker), self._received, lambda: os._exit(0))
        self._send = self._link.send
        self._spawn(self._watch())

    def _received(self, frame: frames.Frame) -> None:
        self._frames[type(frame)](frame)

    def _spawn(self, work: Any) -> "asyncio.Task[None]":
        task: asyncio.Task[None] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _start(self, frame: frames.Start) -> None:
        configure_logging(frame.debug, frame.structured, frame.logging)
        self._events = None if frame.events is None else CloudEvents(frame.events)
        if frame.tracing is not None:
            try:
                from ...telemetry.tracing import Tracing  # late: a worker starts without it
            except ImportError as error:
                logger.error("no traces from this worker's environment: %s", error)
            else:
                self._tracing = Tracing(*frame.tracing)

    async def _load(self, frame: frames.Load) -> None:
        settings = ModelSettings.from_complete(frame.settings)
        settings._source = frame.source
        settings.max_concurrency = settings.worker_concurrency
        try:
            model = await load_model(settings, frame.timeout)
            local = Local(model, await self._build_answering(model))
            inputs, outputs = TENSORS.dump_json(local.inputs), TENSORS.dump_json(local.outputs)
        except InferstreamError as error:
            self._send(frames.LoadFailed(frame.instance, error.message))
            return
        except Exception as error:
            logger.exception("model %s cannot be served", settings.name)
            reason = f"Model {settings.name} did not load: {type(error).__name__}: {error}"
            self._send(frames.LoadFailed(frame.instance, reason))
            return
        instance = self._instances[frame.instance] = Instance(local, self._outgoing.flags)
        if self._tracing is not None:
            instance.handler = _in_span(instance.handler, self._tracing)
        self._send(frames.Loaded(frame.instance, inputs, outputs, local.answers, local.slots, local.routes))
        _freeze()

    async def _unload(self, frame: frames.Unload) -> None:
        instance = self._instances.pop(frame.instance, None)
        if instance is not None:
            await instance.local.unload()
            self._tell_steps(frame.instance, instance)
        self._send(frames.Unloaded(frame.instance))
        del instance
        gc.unfreeze()  # or what the model leaves behind would never be collected
        _freeze()

    def _open(self, frame: frames.Open) -> None:
        instance = self._instances[frame.instance]
        local = instance.local
        request = unpack_request(frame.request, self._incoming.view)
        if self._events is not None:
            self._events.add_to(request, local.settings.name)
        call = RunningCall(frame, request, local.settings, self._link, self._outgoing)
        self._calls[call.number] = call
        task = call.task = self._loop.create_task(call.run(instance.handler))
        task.add_done_callback(partial(self._done, call.number))

    def _done(self, number: int, task: "asyncio.Task[None]") -> None:
        del self._calls[number]
        if task.cancelled():
            self._send(frames.End(number))  # cancelled before its first step, so that nothing of it ever ran

    def _more(self, frame: frames.More) -> None:
        # Unpacked even when nobody waits: dropping the tensors is what frees their place.
        request = None if frame.request is None else unpack_request(frame.request, self._incoming.view)
        call = self._calls.get(frame.call)
        if call is None or not isinstance(call.more, LaterRequests):
            return
        if request is not None and self._events is not None:
            self._events.add_to(request, call.model)
        call.more.came(request, unpack_failure(frame.failure) if frame.failure is not None else None)

    def _credit(self, frame: frames.Credit) -> None:
        call = self._calls.get(frame.call)
        if call is not None:
            call.credit(frame.count)

    def _cancel(self, frame: frames.Cancel) -> None:
        call = self._calls.get(frame.call)
        if call is not None:
            call.cancel()

    async def _describe(self, frame: frames.Describe) -> None:
        local = self._instances[frame.instance].local
        try:
            metadata = await local.metadata()
            self._send(frames.Described(frame.call, metadata.model_dump_json().encode()))
        except BaseException as error:
            self._fail(frame.call, local, error)

    async def _ask(self, frame: frames.Ask) -> None:
        local = self._instances[frame.instance].local
        if self._tracing is not None:
            self._tracing.enter(Headers(frame.request.headers))
        try:
            self._send(frames.Told(frame.call, await local.ask(frame.request)))
        except BaseException as error:
            self._fail(frame.call, local, error)

    def _fail(self, call: int, local: Local, error: BaseException) -> None:
        failure = translated(error, local.settings.name, None)
        assert isinstance(failure, InferstreamError)
        self._send(frames.Failed(call, pack_failure(failure)))

    async def _stop(self, frame: frames.Stop) -> None:
        try:
            async with asyncio.timeout(frame.grace):
                await asyncio.gather(*(instance.local.unload() for instance in self._instances.values()))
        except TimeoutError:
            logger.error("models were still unloading after %g s", frame.grace)
        if self._tracing is not None:
            await self._tracing.stop()
        logging.shutdown()
        with suppress(Exception):  # model code may have closed it
            sys.stdout.flush()
        os._exit(0)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH)
            for number, instance in self._instances.items():
                if instance.local.ready is not instance.ready:
                    instance.ready = not instance.ready
                    self._send(frames.Readiness(number, instance.ready))
                self._tell_steps(number, instance)

    def _tell_steps(self, number: int, instance: Instance) -> None:
        changes = instance.steps.drain()
        if changes is not None:
            self._send(frames.Stepped(number, changes))

    def _freed(self) -> None:
        """Called from whatever thread drops the last view of a tensor."""
        if not self._freeing:
            self._freeing = True
            self._loop.call_soon_threadsafe(self._give_back)

    def _give_back(self) -> None:
        self._freeing = False
        self._send(frames.Free(self._incoming.take_freed()))

    def registered(self, name: str, description: str) -> None:
        """Model code has registered a metric."""
        self._send_from_anywhere(frames.Registered(name, description))

    def logged(self, model: str, version: str, values: dict[str, float]) -> None:
        """Model code has logged a metric."""
        self._send_from_anywhere(frames.Logged(model, version, values))

    def _send_from_anywhere(self, frame: frames.Frame) -> None:
        if threading.get_ident() == self._thread:
            self._send(frame)
        else:
            self._loop.call_soon_threadsafe(self._send, frame)


def _in_span(inner: Handler, tracing: "Tracing") -> Handler:
    """A handler whose calls, and what model code does in them, lie in the span that came with them."""

    def handle(call: Call) -> Awaitable[Reply]:
        if call.trace is not None:
            tracing.enter(call.trace)
        return inner(call)

    return handle


def _freeze() -> None:
    """What is loaded stays: the collector need not look at it again."""
    gc.collect()
    gc.freeze()
