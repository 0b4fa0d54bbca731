"""The process of a follower: the doors of the server, over the models that the leader chooses."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import chain, count
from typing import Any

import msgspec

from ... import processors
from ...allocator import keep_freed_memory
from ...concurrency.event_loop import new_event_loop
from ...concurrency.questions import Questions
from ...concurrency.tasks import Tasks
from ...dataplane.access import Access
from ...dataplane.dataplane import DataPlane
from ...dataplane.peers import Peers
from ...dataplane.workers.shared import WorkerLoads
from ...errors import InferenceFailed, InferstreamError
from ...garbage import settle
from ...imports.folders import share_folders
from ...processes.custom_metrics import CustomMetricSender
from ...processes.descriptors import Intake
from ...processes.frames import pack_failure, unpack_failure
from ...processes.link import Link
from ...processes.membership import belong_to
from ...settings import Settings
from ...telemetry.console import configure_console
from ...telemetry.custom import CUSTOM
from ...telemetry.files import MetricFiles
from ...telemetry.histogram import Buckets
from ...telemetry.logs import configure_logging, logged_traceback
from ...telemetry.metrics import Meters
from ...telemetry.sums import families_of
from ...telemetry.tracebacks import RaisedElsewhere
from ...telemetry.workers import WorkerMeters
from ..doors import Doors
from ..ports import bind
from ..spans import build_push, build_tracing
from ..standin import StandIn
from ..stopping import PORTS, UNLOADING, within
from . import frames
from .follower_registry import FollowerRegistry, Loading

logger = logging.getLogger("inferstream.server")

PUSH = 1.0
"""Seconds between two reports of the meters to the leader. The last interval is lost if this process is lost."""


class Follower:
    """Runs the leader's frames."""

    def __init__(self, end: socket.socket, intake: socket.socket, loads: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._spawn = Tasks().start
        self._questions: Questions[bytes] = Questions()
        self._numbers = count(1)
        self._workers = WorkerMeters(MetricFiles(None))
        self._doors: Doors | None = None
        self._frames: dict[type[Any], Callable[[Any], object]] = {
            frames.Configure: self._start,
            frames.Prepare: lambda frame: self._do(
                frame, self._registry.prepare(frame.model, self._loading.load(frame))
            ),
            frames.Serve: lambda frame: self._do(frame, self._registry.serve(frame.model)),
            frames.Withdraw: lambda frame: self._do(frame, self._registry.withdraw(frame.model)),
            frames.Tell: self._tell,
            frames.OpenPorts: lambda frame: self._do(frame, self._open()),
            frames.Drain: lambda frame: self._do(frame, self._drain(frame.grace)),
            frames.Shutdown: lambda frame: self._do(frame, self._stop(frame.seconds), then=_end),
            frames.Retired: lambda frame: self._loading.retired(frame.worker),
            frames.Lost: lambda frame: self._loading.lost(frame.worker, frame.how),
            frames.QueryResult: self._query_result,
            frames.Ask: lambda frame: self._spawn(self._answer(frame)),
            frames.Count: lambda frame: self._count(frame.operation),
            frames.Follow: lambda frame: self._registry.follow(frame),
            frames.Records: lambda frame: self._registry.followers.put_foreign(frame.records, frame.dropped),
        }
        decoder = msgspec.msgpack.Decoder(frames.ToFollower)
        self._link = Link(end, decoder, self._received, lambda: os._exit(0))
        self._send = self._link.send
        self.metrics = CustomMetricSender(self._send)
        self._intake = intake
        self._loads = loads

    def _received(self, frame: Any) -> None:
        self._frames[type(frame)](frame)

    def _start(self, frame: frames.Configure) -> None:
        settings = self._settings = Settings.from_complete(frame.settings)
        settings._reloads = frame.reloads
        if settings.keep_freed_memory:
            keep_freed_memory()
        configure_logging(settings.debug, settings.use_structured_logging, settings.logging_settings)
        configure_console(settings.use_structured_logging, settings.logging_settings)
        share_folders(frame.code)
        processors.divide(frame.count)
        self._ports = frame.ports
        self._meters = Meters(settings.metrics_rest_server_prefix, Buckets(**settings.metrics_buckets))
        self._meters.elsewhere = partial(self._ask, "metrics", "")
        self._tracing = build_tracing(settings)
        self._metric_push = build_push(settings, self._meters)
        if self._metric_push is not None:
            self._metric_push.start()
        self._registry = FollowerRegistry(settings, self._meters, self._tracing, self._ask, self._send)
        loads = WorkerLoads(self._loads, frame.index, frame.count)
        self._stand_in = StandIn(settings.model_load_timeout)
        which = (frame.index, frame.count)
        self._loading = Loading(settings, which, self._workers, self._send, loads, self._stand_in)
        Intake(self._intake, self._loading.arrived)
        access = Access(settings.host, settings.allow_open_repository)
        self._peers = Peers(frame.index, frame.count, self._ask_peer)
        self._dataplane = DataPlane(settings, self._registry, access, self._peers)
        self._spawn(self._push())

    def _tell(self, frame: frames.Tell) -> None:
        self._registry.tell(frame)
        self._send(frames.Done(frame.operation))

    async def _open(self) -> None:
        settings = self._settings
        doors = Doors(self._dataplane, settings, self._meters, self._tracing, self._stand_in)
        sock = bind(settings.host, self._ports["REST"], "REST", shared=True)
        if not settings.one_port:
            doors.grpc.join(settings.host, self._ports["gRPC"])
        await doors.start(sock)
        self._doors = doors
        settle()

    async def _drain(self, grace: float) -> None:
        if self._doors is not None:
            self._doors.drain()
        await self._registry.stop(grace)

    async def _stop(self, seconds: float) -> None:
        over = self._loop.time() + seconds
        if self._doors is not None:
            await within(min(PORTS, seconds), "closing the ports", self._doors.stop())
        left = max(over - self._loop.time(), 0.0)
        sending = [each.stop() for each in (self._tracing, self._metric_push) if each is not None]
        await within(left, "unloading", self._registry.unload_all(min(UNLOADING, left)), *sending)
        self._count(0)

    def _do(
        self,
        frame: frames.FollowerOperation,
        coroutine: Coroutine[Any, Any, None],
        then: Callable[[], None] = lambda: None,
    ) -> None:
        self._spawn(self._doing(frame.operation, coroutine, then))

    async def _doing(
        self, operation: int, coroutine: Coroutine[Any, Any, None], then: Callable[[], None]
    ) -> None:
        try:
            await coroutine
            failure = None
        except InferstreamError as error:
            if error.__cause__ is not None:  # for the log of the leader
                error.__cause__ = RaisedElsewhere(logged_traceback(error.__cause__))
            failure = pack_failure(error)
        except Exception as error:
            logger.exception("an operation of a front end failed")
            failure = pack_failure(InferenceFailed(f"{type(error).__name__}: {error}"))
        self._send(frames.Done(operation, failure))
        await asyncio.sleep(0)  # the link writes in the next turn of the loop
        then()

    async def _ask(self, what: str, name: str, front_end: int | None = None) -> bytes:
        number = next(self._numbers)
        result = self._questions.ask(number)
        self._send(frames.Query(number, what, name, front_end))
        return await result

    async def _ask_peer(self, front_end: int, subject: str, text: str) -> bytes:
        return await self._ask(subject, text, front_end)

    async def _answer(self, frame: frames.Ask) -> None:
        """Answer another front end."""
        try:
            answer = frames.Answered(
                frame.question, None, await self._peers.ask(self._peers.index, frame.subject, frame.text)
            )
        except InferstreamError as error:
            answer = frames.Answered(frame.question, pack_failure(error))
        except Exception:
            logger.exception("a question of another front end failed")
            failed = InferenceFailed("The server failed; its log says why.")
            answer = frames.Answered(frame.question, pack_failure(failed))
        self._send(answer)

    def _query_result(self, frame: frames.QueryResult) -> None:
        if frame.failure is not None:
            self._questions.fail(frame.question, unpack_failure(frame.failure))
        else:
            self._questions.settle(frame.question, frame.data)

    def _count(self, operation: int) -> None:
        families = families_of(chain(self._meters.collect(), self._workers.collect()))
        self._send(frames.Counted(operation, families))

    async def _push(self) -> None:
        while True:
            await asyncio.sleep(PUSH)
            self._count(0)


def _end() -> None:
    logging.shutdown()
    with suppress(Exception):  # model code may have closed stdout
        sys.stdout.flush()
    os._exit(0)


def main(parent: int, end: int, lifeline: int, intake: int, loads: int) -> None:
    """Serve as a follower of the process `parent`, with the descriptors that it has opened."""
    belong_to(parent, end, lifeline, intake, loads)

    async def serve() -> None:
        follower = Follower(socket.socket(fileno=end), socket.socket(fileno=intake), loads)
        CUSTOM.sink = follower.metrics
        await asyncio.Event().wait()

    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(serve())
