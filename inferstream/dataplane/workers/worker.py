"""The main program of a worker: loads models and runs calls until the server stops it or exits."""

import asyncio
import logging
import os
import socket
from functools import partial
from typing import Any

from ... import processors
from ...allocator import keep_freed_memory
from ...errors import InferstreamError, ModelLoadFailed
from ...extensions.entries import import_object
from ...garbage import freeze_objects
from ...imports.folders import share_folders
from ...imports.trusted import TrustedRuntimes
from ...processes import membership
from ...processes.custom_metrics import CustomMetricSender
from ...processes.endpoint import MakeLink
from ...processes.frames import Frame
from ...processes.link import Link
from ...settings import ModelSettings
from ...signature import SIGNATURE
from ...telemetry.console import configure_console
from ...telemetry.context import set_span_source
from ...telemetry.logs import configure_logging
from ..execution.base import BuildRouteHandler
from ..execution.local import Local
from . import frames
from .edge import WorkerEdge
from .instance import Instance, Models
from .peer import ConnectedFrontEnd

logger = logging.getLogger("inferstream.worker")

WATCH = 0.25
"""Interval between checks of each model's `ready` and meters, in seconds."""


class Worker:
    """The models of a worker, and the front ends that call them.

    Only the first front end, the supervisor, loads and unloads models and stops the worker. If its link
    closes, the process exits.
    """

    def __init__(
        self, link: MakeLink, incoming: int, outgoing: int, build_route_handler: BuildRouteHandler
    ) -> None:
        self._build_route_handler = build_route_handler
        self._models = Models()
        self._instances = self._models.instances
        self._front_ends: set[ConnectedFrontEnd] = set()
        self._supervisor = ConnectedFrontEnd(
            link,
            (incoming, outgoing),
            self._models,
            {
                frames.Start: self._start,
                frames.LoadInstance: self._load,
                frames.UnloadInstance: self._unload,
                frames.Ping: self._ping,
                frames.Stop: lambda frame: self._spawn(self._stop(frame)),
            },
            lambda: os._exit(0),
        )
        self._send = self._supervisor.send
        self._spawn = self._supervisor.spawn
        self.metrics = CustomMetricSender(self._send)
        self._spawn(self._watch())

    def admit(self, link: MakeLink, memory: tuple[int, int]) -> None:
        """Serve an additional front end, which may only call loaded models."""
        front_end = ConnectedFrontEnd(
            link, memory, self._models, {}, lambda: self._remove_front_end(front_end)
        )
        self._front_ends.add(front_end)
        for number, instance in self._instances.items():
            front_end.send(instance.readiness(number))

    def _remove_front_end(self, front_end: ConnectedFrontEnd) -> None:
        self._front_ends.discard(front_end)
        front_end.end()

    def _send_to_front_ends(self, frame: Frame) -> None:
        for front_end in self._front_ends:
            front_end.send(frame)

    def _start(self, frame: frames.Start) -> None:
        if frame.keep_freed_memory:
            keep_freed_memory()
        configure_logging(frame.log_level, frame.structured, frame.logging)
        configure_console(frame.structured, frame.logging)
        share_folders(frame.code)
        if frame.trusted is not None:
            TrustedRuntimes.of(frame.trusted).enforce()
        processors.divide(frame.workers)
        self._models.shows_errors = frame.shows_errors
        if frame.turns:
            self._models.turns = _import_and_call(frame.turns)
        for name, given in frame.edges.items():
            edge: WorkerEdge | None = _import_and_call(name, given)
            if edge is None:
                continue
            self._models.edges.append(edge)
            if edge.mark is not None:
                self._models.marks.append(edge.mark)
            if edge.current_span is not None:
                set_span_source(edge.current_span)

    async def _ping(self, frame: frames.Ping) -> int:
        return sum(peer.awaited for peer in self._front_ends)

    async def _load(self, frame: frames.LoadInstance) -> frames.Loaded:
        settings = ModelSettings.from_complete(frame.settings)
        settings._source = frame.source
        settings.max_concurrency = settings.worker_concurrency
        try:
            local = await Local.load(settings, frame.timeout, self._build_route_handler)
            signature = SIGNATURE.dump_json(local.signature)
        except InferstreamError:
            raise
        except Exception as error:
            logger.exception("model %s cannot be served", settings.name)
            reason = f"Model {settings.name} did not load: {type(error).__name__}: {error}"
            raise ModelLoadFailed(reason) from None
        metadata = await _dump_metadata(local)
        instance = self._instances[frame.instance] = Instance(local, self._models)
        self._send_to_front_ends(instance.readiness(frame.instance))
        local.slots.watch(lambda _: self._send_readiness(frame.instance, instance))
        asyncio.get_running_loop().call_soon(freeze_objects)  # After the reply.
        return frames.Loaded(
            frame.instance,
            signature,
            local.capabilities,
            local.slots.count,
            local.routes,
            local.strictness,
            metadata,
            local.settings.configuration,
        )

    async def _unload(self, frame: frames.UnloadInstance) -> None:
        instance = self._instances.pop(frame.instance, None)
        self._send_to_front_ends(frames.Unloaded(frame.instance))
        if instance is not None:
            await instance.local.unload()
            self._send_meter_changes(frame.instance, instance)

    async def _stop(self, frame: frames.Stop) -> None:
        loop = asyncio.get_running_loop()
        over = loop.time() + frame.grace
        try:
            async with asyncio.timeout(frame.grace):
                await asyncio.gather(*(instance.local.unload() for instance in self._instances.values()))
        except TimeoutError:
            logger.error("models are still unloading after %g s; no longer waiting", frame.grace)
        for edge in self._models.edges:
            await edge.stop()
        membership.end(over - loop.time())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH)
            for number, instance in self._instances.items():
                if instance.local.ready is not instance.ready:
                    instance.ready = not instance.ready
                    self._send_readiness(number, instance)
                instance.local.measure()
                self._send_meter_changes(number, instance)

    def _send_readiness(self, number: int, instance: Instance) -> None:
        changed = instance.readiness(number)
        self._send(changed)
        self._send_to_front_ends(changed)

    def _send_meter_changes(self, number: int, instance: Instance) -> None:
        for kind, meters in instance.meters.stages.items():
            changes = meters.drain()
            if changes is not None:
                self._send(frames.MeterChanges(number, kind.__name__, changes))


def _import_and_call(name: str, *given: Any) -> Any:
    """Import `module:object`, and call it with `given`, if any. Logs errors and returns None."""
    try:
        imported = import_object(name)
        return imported(*given) if given else imported
    except Exception as error:  # The plug-in may be missing from the worker's environment.
        logger.error("%s is not available in this worker: %s: %s", name, type(error).__name__, error)


async def _dump_metadata(local: Local) -> bytes | None:
    """Return the metadata to send to the server, or None if the model computes it each time."""
    if local.describes_itself:
        return None
    try:
        return (await local.metadata()).model_dump_json().encode()
    except Exception:
        return None  # Inference still works, and requests for the metadata return the error.


def main(
    build_route_handler: BuildRouteHandler,
    parent: int,
    end: int,
    lifeline: int,
    incoming: int,
    outgoing: int,
    intake: int | None = None,
) -> None:
    """Serve the process `parent` through these descriptors. Other front ends connect through `intake`."""
    membership.belong_to(parent, end, lifeline, incoming, outgoing, *(() if intake is None else (intake,)))

    def start() -> CustomMetricSender:
        link = partial(Link, socket.socket(fileno=end))
        worker = Worker(link, incoming, outgoing, build_route_handler)
        if intake is not None:
            # Imported lazily: most servers have a single front end.
            from ...processes.descriptors import Intake

            Intake(
                socket.socket(fileno=intake), lambda _, end, *memory: worker.admit(partial(Link, end), memory)
            )
        return worker.metrics

    membership.run(start)
