"""A model under check: in this process, in a worker, and over the ports of a server on loopback."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from typing import Any

from inferstream import Application
from inferstream.ext.calls import Caller
from inferstream.ext.hosting import ClientTarget, HostedServer, V2Client, build_server, resolve_served

from ...errors import InferstreamError, MissingExtra
from ...testing import InProcess
from ...types import Headers, InferenceRequest
from .answers import Answers, answers, joined

ALONE: dict[str, Any] = {
    "host": "127.0.0.1",
    "http_port": 0,
    "grpc_port": 0,
    "metrics_port": 0,
    "frontends": 1,
    "parallel_workers": 0,
    "kafka_enabled": False,
    "cache_enabled": False,
    "keys_file": None,
    "state_key_file": None,
    "record": None,
    "strict": False,
    "shutdown_grace": 1.0,
}
"""Settings of the server: nobody else calls it, no cache answers for the model, and its end waits for nothing."""


class SubjectFailed(Exception):
    """A call ended with an error."""

    def __init__(self, error: InferstreamError) -> None:
        self.error = error
        cause = error.__cause__
        super().__init__(str(error) if cause is None else f"{type(cause).__name__}: {cause}")


@contextmanager
def _failing() -> Iterator[None]:
    """Raise SubjectFailed in place of our errors."""
    try:
        yield
    except InferstreamError as error:
        raise SubjectFailed(error) from error


class Subjects:
    """All models of a target, served."""

    def __init__(self, server: HostedServer, clients: Mapping[str, V2Client], target: str) -> None:
        self.target = target
        self.local = InProcess(server.application)
        self.clients = clients
        """Clients of the ports, by the names of doors."""
        self.application = server.application
        self._working: InProcess | None = None
        self._stack = AsyncExitStack()

    async def worker(self) -> InProcess:
        """The same models in a worker process, from the first time that somebody asks."""
        if self._working is None:
            application = Application(self.target, **{**ALONE, "parallel_workers": 1})
            self._working = InProcess(await self._stack.enter_async_context(application))
        return self._working

    async def aclose(self) -> None:
        """End the worker, if there is one."""
        await self._stack.aclose()


class Subject:
    """One model."""

    def __init__(self, subjects: Subjects, name: str) -> None:
        """Raises NotLoaded for a model that loads with its first call, and why a model takes no call."""
        self.name = name
        self.subjects = subjects
        self.blocked = ""
        """Where a call is that has not ended; empty without one."""
        caller = Caller(Headers(()), "", asyncio.current_task())
        models = subjects.application.models
        models.admit(name, None, caller)
        described = models.described(name)
        signature = described.signature
        self.inputs = list(signature.inputs or signature.described)
        self.outputs = list(signature.outputs or ())
        self.shaped = not signature.outputs_annotated
        """Whether the outputs have shapes: annotations give datatypes alone."""
        self.streams = signature.streams
        self.predicts = described.capabilities.predict
        self.doors = [*subjects.clients]

    async def infer(self, request: InferenceRequest, process: InProcess | None = None) -> Answers:
        """The response, in this process unless another is given. Raises SubjectFailed."""
        if not self.predicts:
            return joined(await self.stream(request, process))
        with _failing():
            return answers(await (process or self.subjects.local).infer(self.name, copied(request)))

    async def stream(self, request: InferenceRequest, process: InProcess | None = None) -> list[Answers]:
        """All responses of a stream. Raises SubjectFailed."""
        with _failing():
            responses = (process or self.subjects.local).stream(self.name, copied(request))
            return [answers(response) async for response in responses]

    async def leave(self, request: InferenceRequest) -> None:
        """Read the first response of a stream, and leave. Raises SubjectFailed."""
        responses = self.subjects.local.stream(self.name, copied(request))
        try:
            with _failing():
                async for _ in responses:
                    break
        finally:
            if isinstance(responses, AsyncGenerator):
                await responses.aclose()

    async def infer_over(self, door: str, request: InferenceRequest) -> Answers:
        """The response over a port. Raises SubjectFailed."""
        with _failing():
            return answers(await self.subjects.clients[door].infer(self.name, copied(request)))

    async def stream_over(self, door: str, request: InferenceRequest) -> list[Answers]:
        """All responses of a stream over a port. Raises SubjectFailed."""
        stream = self.subjects.clients[door].stream(self.name, copied(request))
        with _failing():
            async with aclosing(stream) as responses:
                return [answers(response) async for response in responses]


def copied(request: InferenceRequest) -> InferenceRequest:
    """The request for another call: a model may change what it is given."""
    return request.model_copy(deep=True)


@asynccontextmanager
async def serving(target: str) -> AsyncIterator[Subjects]:
    """The models of a folder or an app, until the end of the block. Raises InvalidSettings."""
    async with server_of(target) as server:
        clients = _clients(server, "REST") | _clients(server, "gRPC")
        subjects = Subjects(server, clients, target)
        try:
            yield subjects
        finally:
            await subjects.aclose()
            for client in clients.values():
                await client.aclose()


@asynccontextmanager
async def server_of(target: str) -> AsyncIterator[HostedServer]:
    """A server of a folder or an app, on free ports until the end of the block. Raises InvalidSettings."""
    settings, repository = resolve_served(target, ALONE)
    server = build_server(settings, repository)
    started = asyncio.Event()
    running = asyncio.create_task(server.run(lambda _: started.set()))
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not started.is_set():
        await running  # raises why it did not start
    try:
        yield server
    finally:
        server.stop()
        await running


def _clients(server: HostedServer, port: str) -> dict[str, V2Client]:
    """A client of a port for each form of tensors, by the name of the door; none for gRPC without its extra."""
    url = f"http://127.0.0.1:{server.ports[port]}"
    targets = {
        f"{port} {form}": ClientTarget(url, math.inf, binary=form == "binary") for form in ("typed", "binary")
    }
    with suppress(MissingExtra):
        return {door: V2Client(target, over_grpc=port == "gRPC") for door, target in targets.items()}
    return {}
