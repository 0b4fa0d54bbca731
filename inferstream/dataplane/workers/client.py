"""The server's client for a worker process."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from ...errors import InferstreamError, ModelError, Overloaded, WorkerLost
from ...handlers import HttpRequest, HttpResponse
from ...processes import shared_memory
from ...processes.endpoint import Endpoint, Handlers, MakeLink
from ...processes.errors import OutOfMemory
from ...processes.frames import Frame, unpack_failure
from ...rows import RowErrors
from ...types import MetadataModelResponse
from ...types.forms import OutputForm
from ...types.inference import respond
from ..call import Call
from . import frames
from .call_counts import WorkerLoad
from .packing import unpack_response
from .remote_call import RemoteCall
from .routes import call_route


class NeverStarted(WorkerLost):
    """The worker died before it started this call, so the call can be retried in another worker."""


class Suspected(WorkerLost):
    """The worker died during several loads or unloads, and any of these models may be the cause."""


Hung = Callable[["WorkerClient"], None]
"""Called with a worker in which a call hangs."""


class WorkerClient:
    """Runs calls in a worker. Every call finishes, even if the process dies."""

    _endpoint: Endpoint

    def __init__(self, requests: int, responses: int) -> None:
        self._memory = shared_memory.Memory(
            responses, requests, lambda places: self._endpoint.send(frames.Free(places))
        )
        self._incoming, self._outgoing = self._memory.incoming, self._memory.outgoing
        self._flags = self._incoming.flags
        self._frames: dict[type[Frame], Callable[[Any], object]] = {
            frames.Item: self._receive_response,
            frames.Form: self._receive_form,
            frames.ItemOf: self._receive_value,
            frames.Full: self._for_call(RemoteCall.handle_full),
            frames.Ended: self._end,
            frames.Failed: lambda frame: self._finish_call(frame.call, unpack_failure(frame.failure)),
            frames.Partly: self._receive_row_errors,
            frames.Wanted: self._for_call(RemoteCall.request_more),
            frames.Readiness: self._receive_readiness,
            frames.Free: lambda frame: self._outgoing.free(frame.places),
        }
        self._calls: dict[int, RemoteCall] = {}
        self._load: WorkerLoad | None = None
        self._forms: dict[int, OutputForm] = {}
        self._number = 0
        self._exchanges = count(1)
        self.pid = 0
        self.models: dict[int, bool] = {}
        """Loaded instances, and whether each is ready."""
        self.resized: Callable[[int, int], None] | None = None
        """Called with an instance and its new number of concurrent calls."""
        self.completed = 0
        self.ended = asyncio.Event()

    def _connect(self, pid: int, link: MakeLink, more: Handlers, lost: Callable[[], None]) -> None:
        """Connect to the process. `more` handles frames that do not belong to calls."""
        self.pid = pid
        self._endpoint = Endpoint(link, {**self._frames, **more}, lost)

    def share(self, load: WorkerLoad) -> None:
        """Publish the number of calls to other front ends. Must be called before the first call."""
        self._load = load

    @property
    def active(self) -> int:
        """Number of calls in the worker, including calls of other front ends and calls without a caller."""
        return len(self._calls) if self._load is None else self._load.total

    def open(self, call: Call, instance: int, window: int, limit: float | None, hung: Hung) -> RemoteCall:
        """Send a call to the worker. Raises an error of `UNENCODABLE` if the request cannot be encoded."""
        number = self._next_number()
        self._flags[number] = 0
        remote = RemoteCall(number, call, window, limit, lambda: hung(self), self._endpoint.link)
        remote.send(instance, self._outgoing)
        self._calls[number] = remote
        if self._load is not None:
            self._load.note(len(self._calls))
        return remote

    def _next_number(self) -> int:
        """Return an unused number. Each number has one "started" flag in shared memory. Raises Overloaded."""
        if len(self._calls) >= shared_memory.FLAGS - 1:
            raise Overloaded(f"A worker process has {shared_memory.FLAGS} calls in progress already.")
        while True:
            self._number = self._number % (shared_memory.FLAGS - 1) + 1
            if self._number not in self._calls:
                return self._number

    async def describe(self, instance: int) -> MetadataModelResponse:
        """Return the metadata of a model. Raises WorkerLost, or the model's error."""
        described: bytes = await self._endpoint.ask(frames.Describe(instance))
        return MetadataModelResponse.model_validate_json(described)

    async def call_route(self, instance: int, request: HttpRequest) -> HttpResponse:
        """Call a REST route of a model. Raises WorkerLost, or the model's error."""
        return await call_route(self._endpoint, instance, next(self._exchanges), request)

    def _for_call(self, act: Callable[[RemoteCall, Any], object]) -> Callable[[Any], None]:
        """Build a handler for frames of calls, which ignores frames of calls that have ended."""

        def handle(frame: Any) -> None:
            if (remote := self._calls.get(frame.call)) is not None:
                act(remote, frame)

        return handle

    def _receive_response(self, frame: frames.Item) -> None:
        # Unpacked even without a caller, because this frees the tensors' places in shared memory.
        response = unpack_response(frame.response, self._incoming.view)
        if (remote := self._calls.get(frame.call)) is not None:
            if frame.last:
                self._leave(frame.call)
            remote.receive(response, frame.last)

    def _leave(self, number: int) -> RemoteCall | None:
        remote = self._calls.pop(number, None)
        if remote is not None:
            self.completed += 1
            if self._load is not None:
                self._load.note(len(self._calls))
        return remote

    def _receive_form(self, frame: frames.Form) -> None:
        if len(self._forms) >= frames.MAX_FORMS:
            self._forms.clear()
        self._forms[frame.number] = frame.form

    def _receive_value(self, frame: frames.ItemOf) -> None:
        if (remote := self._calls.get(frame.call)) is not None:
            if frame.last:
                self._leave(frame.call)
            value = frame.value.decode("utf-16-le", "surrogatepass") if frame.halved else frame.value
            remote.receive(respond(self._forms[frame.form], value, remote.request_id), frame.last)

    def _end(self, frame: frames.Ended) -> None:
        if frame.lingering and frame.call in self._calls:
            # The model still occupies a thread. If this lasts too long, the call counts as hung.
            self._calls[frame.call].end()
        else:
            self._finish_call(frame.call, None)

    def _receive_row_errors(self, frame: frames.Partly) -> None:
        rest = None if frame.response is None else unpack_response(frame.response, self._incoming.view)
        errors = {row: ModelError(*error) for row, error in frame.errors.items()}
        self._finish_call(frame.call, RowErrors(errors, rest))

    def _finish_call(self, number: int, error: InferstreamError | None) -> None:
        if (remote := self._leave(number)) is not None:
            remote.finish(error)

    def _receive_readiness(self, frame: frames.Readiness) -> None:
        self.models[frame.instance] = frame.ready
        if self.resized is not None:
            self.resized(frame.instance, frame.slots)

    def _lose(self, how: str, starved: bool = False) -> None:
        """Fail all calls, because the process has exited.

        `how` describes the exit in messages. If `starved`, the kernel killed the process (OOM).
        """
        lost = f"The worker process that ran this request {how}."
        error = OutOfMemory if starved else WorkerLost
        self._endpoint.end(WorkerLost(lost))
        self.ended.set()
        self.models.clear()
        for number, remote in list(self._calls.items()):
            started = self._flags[number]
            remote.finish(error(lost) if started else NeverStarted(lost))
        self._calls.clear()
        if self._load is not None:
            self._load.note(0)
        self._memory.close()
