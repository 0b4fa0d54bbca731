"""A front-end process, which serves the supervisor's models on the server's ports."""

import asyncio
import logging
import os
import socket
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from ... import processors
from ...allocator import keep_freed_memory
from ...dataplane.access import build_authority
from ...dataplane.dataplane import DataPlane
from ...dataplane.peers import PackedQuestion, Peers, Questions
from ...dataplane.workers.call_counts import WorkerLoads
from ...garbage import freeze_objects
from ...imports.folders import share_folders
from ...imports.trusted import TrustedRuntimes
from ...processes import membership
from ...processes.custom_metrics import CustomMetricSender
from ...processes.descriptors import Intake
from ...processes.endpoint import Endpoint, Handlers
from ...processes.frames import answer_type
from ...processes.link import Link
from ...settings import Settings
from ...telemetry.console import configure_console
from ...telemetry.families import Family, to_families
from ...telemetry.files import MetricFiles
from ...telemetry.logs import configure_logging
from ...telemetry.meter_set import Buckets
from ...telemetry.metrics import Meters
from ...telemetry.workers import WorkerMeters
from ..doors import Doors
from ..edge_order import build_edges
from ..ports import SERVED_PORTS, bind
from ..stopping import PORTS, UNLOADING, run_within
from . import frames
from .registry import FrontEndRegistry
from .workers import Loading

logger = logging.getLogger("inferstream.server")

PUSH = 1.0
"""Seconds between metrics reports to the supervisor. If the process crashes, the last interval is lost."""


class FrontEnd:
    """Handles the frames that the supervisor sends."""

    _registry: FrontEndRegistry
    _loading: Loading
    _peers: Peers

    def __init__(self, end: socket.socket, intake: socket.socket, loads: int, shared: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._workers = WorkerMeters(MetricFiles(None))
        self._doors: Doors | None = None
        handlers: Handlers = {
            frames.Configure: self._start,
            frames.Prepare: lambda frame: self._registry.prepare(frame.model, self._loading.load(frame)),
            frames.Serve: lambda frame: self._registry.serve(frame.model),
            frames.Withdraw: lambda frame: self._registry.withdraw(frame.model),
            frames.Release: lambda frame: self._registry.wait_for_release(frame.model),
            frames.Tell: self._store_states,
            frames.OpenPorts: lambda _: self._open(),
            frames.Drain: lambda frame: self._drain(frame.grace),
            frames.Shutdown: lambda frame: self._spawn(self._shut_down(frame.seconds)),
            frames.Retired: lambda frame: self._loading.retire(frame.worker),
            frames.Lost: lambda frame: self._loading.handle_loss(frame),
            frames.Count: self._count,
            frames.Forward: lambda frame: self._peers.answer(frame.question),
            frames.SendRecords: lambda frame: self._registry.send_records(frame),
            frames.Records: lambda frame: self._registry.subscribers.put_foreign(
                frame.records, frame.dropped
            ),
        }
        endpoint = Endpoint(partial(Link, end), handlers, lambda: os._exit(0))
        self._ask, self._send, self._spawn = endpoint.ask, endpoint.send, endpoint.spawn
        self.metrics = CustomMetricSender(self._send)
        self._intake = intake
        self._loads = loads
        self._shared = shared

    def _start(self, frame: frames.Configure) -> None:
        settings = self._settings = Settings.from_complete(frame.settings)
        settings._reloads = frame.reloads
        if settings.keep_freed_memory:
            keep_freed_memory()
        configure_logging(
            settings.lowest_log_level, settings.use_structured_logging, settings.logging_settings
        )
        configure_console(settings.use_structured_logging, settings.logging_settings)
        share_folders(frame.code)
        if frame.trusted is not None:
            TrustedRuntimes.of(frame.trusted).enforce()
        processors.divide(frame.count)
        self._ports = frame.ports
        self._meters = Meters(settings.metrics_rest_server_prefix, Buckets(**settings.metrics_buckets))
        self._meters.inflight.set_limit(
            settings.max_inflight_bytes, settings.frontends, settings.max_body_bytes
        )
        self._meters.elsewhere = lambda: self._ask(frames.SumMeters())
        self._questions = questions = Questions(frame.questions, settings.strict)
        self._peers = Peers(frame.index, frame.count, self._ask_peer)
        self._peers.answers(PackedQuestion, lambda packed: self._peers.answer(questions.unpack(packed)))
        self._access = access = build_authority(
            settings, index=frame.index, count=frame.count, shared=self._shared
        )
        self._registry = FrontEndRegistry(settings, access, self._meters, self._peers, self._ask, self._send)
        loads = WorkerLoads(self._loads, frame.index, frame.count)
        which = (frame.index, frame.count)
        self._loading = Loading(settings, which, self._workers, self._send, loads)
        Intake(self._intake, self._loading.attach)
        access.start()
        self._dataplane = DataPlane(settings, self._registry, access, self._peers)
        self._edges = build_edges(self._registry.parts)
        for edge in self._edges:
            edge.start()
        self._spawn(self._push())

    async def _open(self) -> None:
        settings = self._settings
        doors = Doors(self._dataplane, settings, self._meters, self._edges)
        sock = bind(settings.host, self._ports["REST"], "REST", shared=True)
        if not settings.one_port:
            doors.grpc.join(settings.host, self._ports["gRPC"])
        SERVED_PORTS.update(self._ports.values())
        await doors.start(sock)
        self._doors = doors
        freeze_objects()

    async def _store_states(self, frame: frames.Tell) -> None:
        await self._registry.store_states(frame)
        if frame.leaving and self._doors is not None:
            self._doors.rest.leave()

    async def _drain(self, grace: float) -> None:
        if self._doors is not None:
            self._doors.drain()
        await self._registry.stop(grace)

    async def _stop(self, seconds: float) -> None:
        over = self._loop.time() + seconds
        if self._doors is not None:
            await run_within(min(PORTS, seconds), "closing the ports", self._doors.stop())
        left = max(over - self._loop.time(), 0.0)
        sending = [edge.stop() for edge in self._edges]
        await run_within(
            left, "unloading", self._registry.unload_all(min(UNLOADING, left)), *sending, self._access.close()
        )

    async def _shut_down(self, seconds: float) -> None:
        over = self._loop.time() + seconds
        try:
            await self._stop(seconds)
        except Exception:
            logger.exception("front-end process: shutdown failed")
        self._send(frames.Counted(self._families()))
        await asyncio.sleep(0)  # the link writes in the next loop iteration
        membership.end(over - self._loop.time())

    async def _ask_peer(self, front_end: int, question: Any) -> Any:
        answer = await self._ask(frames.Forward(front_end, self._questions.pack(question)))
        return msgspec.convert(answer, answer_type(question))

    async def _count(self, _: frames.Count) -> list[Family]:
        return self._families()

    def _families(self) -> list[Family]:
        return to_families(chain(self._meters.collect(), self._workers.collect()))

    async def _push(self) -> None:
        while True:
            await asyncio.sleep(PUSH)
            self._send(frames.Counted(self._families()))


def main(parent: int, end: int, lifeline: int, intake: int, loads: int, shared: int | None = None) -> None:
    """Run a front end of the process `parent`, with the file descriptors that `parent` opened."""
    membership.belong_to(parent, end, lifeline, intake, loads, *([] if shared is None else [shared]))

    membership.run(
        lambda: FrontEnd(socket.socket(fileno=end), socket.socket(fileno=intake), loads, shared).metrics
    )
