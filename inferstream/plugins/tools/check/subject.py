"""A model under test, called in process, in a worker process and over the ports of a local server."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from typing import Any

from inferstream import Application
from inferstream.errors import InferstreamError, MissingExtra
from inferstream.ext.calls import Caller
from inferstream.ext.hosting import ClientTarget, HostedServer, V2Client, build_server, resolve_served
from inferstream.testing import InProcess
from inferstream.types import Headers, InferenceRequest

from .answers import Answers, decode_outputs, join_answers

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
"""Settings of the test server: on loopback, without caches, other inputs or a long shutdown."""


class SubjectFailed(Exception):
    """Raised if a call to the model fails."""

    def __init__(self, error: InferstreamError) -> None:
        self.error = error
        cause = error.__cause__
        reason = error if cause is None else cause
        # An exception of a worker process has no traceback here, and its message names its class.
        is_from_here = cause is not None and cause.__traceback__ is not None
        super().__init__(f"{type(reason).__name__}: {reason}" if is_from_here else str(reason))


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert package errors to SubjectFailed."""
    try:
        yield
    except InferstreamError as error:
        raise SubjectFailed(error) from error


class Subjects:
    """All models of a target, on a running server."""

    def __init__(self, server: HostedServer, clients: Mapping[str, V2Client], target: str) -> None:
        self.target = target
        self.local = InProcess(server.application)
        self.clients = clients
        """Clients by transport and encoding, such as `REST binary`."""
        self.application = server.application
        self._working: InProcess | None = None
        self._stack = AsyncExitStack()

    async def start_worker(self) -> InProcess:
        """Return the same models in a worker process, which is started on first use."""
        if self._working is None:
            application = Application(self.target, **{**ALONE, "parallel_workers": 1})
            self._working = InProcess(await self._stack.enter_async_context(application))
        return self._working

    async def aclose(self) -> None:
        """Stop the worker process if it was started."""
        await self._stack.aclose()


class Subject:
    """One model under test."""

    def __init__(self, subjects: Subjects, name: str) -> None:
        """Read the signature of a model.

        Raises NotLoaded for a lazily loaded model, or an InferstreamError for an unavailable one.
        """
        self.name = name
        self.subjects = subjects
        self.blocked = ""
        """The code position of a call that is still running, or an empty string."""
        caller = Caller(Headers(()), "", asyncio.current_task())
        models = subjects.application.models
        models.admit(name, None, caller)
        described = models.described(name)
        signature = described.signature
        self.inputs = list(signature.inputs or signature.described)
        self.outputs = list(signature.outputs or ())
        self.shaped = not signature.outputs_annotated
        """Whether the outputs declare shapes. Annotations declare only datatypes."""
        self.streams = signature.streams
        self.predicts = described.capabilities.predict
        self.doors = [*subjects.clients]

    async def infer(self, request: InferenceRequest, process: InProcess | None = None) -> Answers:
        """Run the model in this process or in `process`, and return its response. Raises SubjectFailed."""
        if not self.predicts:
            return join_answers(await self.stream(request, process))
        with _convert_errors():
            return decode_outputs(
                await (process or self.subjects.local).infer(self.name, copy_request(request))
            )

    async def stream(self, request: InferenceRequest, process: InProcess | None = None) -> list[Answers]:
        """Return all responses of a stream. Raises SubjectFailed."""
        with _convert_errors():
            responses = (process or self.subjects.local).stream(self.name, copy_request(request))
            return [decode_outputs(response) async for response in responses]

    async def abandon_stream(self, request: InferenceRequest) -> None:
        """Read the first response of a stream, then close the stream. Raises SubjectFailed."""
        responses = self.subjects.local.stream(self.name, copy_request(request))
        try:
            with _convert_errors():
                async for _ in responses:
                    break
        finally:
            if isinstance(responses, AsyncGenerator):
                await responses.aclose()

    async def infer_over(self, door: str, request: InferenceRequest) -> Answers:
        """Return the response of a call over a transport. Raises SubjectFailed."""
        with _convert_errors():
            return decode_outputs(await self.subjects.clients[door].infer(self.name, copy_request(request)))

    async def stream_over(self, door: str, request: InferenceRequest) -> list[Answers]:
        """Return all responses of a stream over a transport. Raises SubjectFailed."""
        stream = self.subjects.clients[door].stream(self.name, copy_request(request))
        with _convert_errors():
            async with aclosing(stream) as responses:
                return [decode_outputs(response) async for response in responses]


def copy_request(request: InferenceRequest) -> InferenceRequest:
    """Copy a request, because a model may modify it."""
    return request.model_copy(deep=True)


@asynccontextmanager
async def serve_subjects(target: str) -> AsyncIterator[Subjects]:
    """Serve the models of a folder or an app inside the block. Raises InvalidSettings."""
    async with run_server(target) as server:
        clients = _clients(server, "REST") | _clients(server, "gRPC")
        subjects = Subjects(server, clients, target)
        try:
            yield subjects
        finally:
            await subjects.aclose()
            for client in clients.values():
                await client.aclose()


@asynccontextmanager
async def run_server(target: str) -> AsyncIterator[HostedServer]:
    """Run a server for a folder or an app on free ports inside the block. Raises InvalidSettings."""
    settings, repository = resolve_served(target, ALONE)
    server = build_server(settings, repository)
    started = asyncio.Event()
    running = asyncio.create_task(server.run(lambda _: started.set()))
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not started.is_set():
        await running  # Raises the error that prevented the start.
    try:
        yield server
    finally:
        server.stop()
        await running


def _clients(server: HostedServer, port: str) -> dict[str, V2Client]:
    """Create the clients of a port by name, one per tensor encoding. Empty if the gRPC extra is missing."""
    url = f"http://127.0.0.1:{server.ports[port]}"
    targets = {
        f"{port} {form}": ClientTarget(url, math.inf, binary=form == "binary") for form in ("typed", "binary")
    }
    with suppress(MissingExtra):
        return {door: V2Client(target, over_grpc=port == "gRPC") for door, target in targets.items()}
    return {}
