"""One worker process, for calls of its models."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from ...concurrency.questions import Questions
from ...errors import InferstreamError, ModelError, Overloaded, WorkerLost
from ...handlers import HttpRequest, HttpResponse
from ...processes import shared_memory
from ...processes.frames import Frame, unpack_failure
from ...processes.link import Link
from ...rows import RowErrors
from ...types import MetadataModelResponse
from ...types.value_response import OutputForm, respond
from ..call import Call
from . import frames
from .packing import unpack_response
from .remote_call import RemoteCall


class NeverStarted(WorkerLost):
    """The worker ended before it began this call, so another worker may run it."""


class Suspected(WorkerLost):
    """The worker ended while it changed several models. Any of them may have caused it."""


Hung = Callable[["WorkerClient"], None]
"""Called with a worker in which a call does not end."""


class WorkerClient:
    """Runs calls in a worker. Every call ends, even if the process dies."""

    _link: Link

    def __init__(self, requests: int, responses: int) -> None:
        self._memory = shared_memory.Memory(responses, requests, self._send_freed)
        self._incoming, self._outgoing = self._memory.incoming, self._memory.outgoing
        self._flags = self._incoming.flags
        self._frames: dict[type[Frame], Callable[[Any], object]] = {
            frames.Completed: self._completed,
            frames.Item: self._item,
            frames.Form: self._form,
            frames.ItemOf: self._item_of,
            frames.Full: self._full,
            frames.Ended: self._end,
            frames.Failed: lambda frame: self._over(frame.call, unpack_failure(frame.failure)),
            frames.Partly: self._partly,
            frames.Wanted: self._wanted,
            frames.Described: lambda frame: self._questions.settle(frame.call, frame.metadata),
            frames.RouteCalled: lambda frame: self._questions.settle(frame.call, frame.response),
            frames.Readiness: self._readiness,
            frames.Free: lambda frame: self._outgoing.free(frame.places),
        }
        self._calls: dict[int, RemoteCall] = {}
        self._forms: dict[int, OutputForm] = {}
        self._questions: Questions[Any] = Questions()
        self._number = 0
        self.pid = 0
        self.models: dict[int, bool] = {}
        """Instances loaded there, and whether each is ready."""
        self.completed = 0
        self.ended = asyncio.Event()

    def _connect(self, pid: int, link: Callable[[Any, Callable[[Frame], None]], Link]) -> None:
        """Connect to the process. `link` makes a link from a decoder and a receiver."""
        self.pid = pid
        self._link = link(msgspec.msgpack.Decoder(frames.FromWorker), self._received)

    def _send_freed(self, places: list[int]) -> None:
        self._link.send(frames.Free(places))

    @property
    def how(self) -> str:
        """How the process ended, for people."""
        return "has ended"

    @property
    def active(self) -> int:
        """Calls that have not ended in the worker, also those without a caller."""
        return len(self._calls)

    def open(self, call: Call, instance: int, window: int, limit: float | None, hung: Hung) -> RemoteCall:
        """Send a call to the worker. Raises if the request's values cannot be sent."""
        number = self._next_number()
        self._flags[number] = 0
        remote = RemoteCall(number, call, window, limit, lambda: hung(self), self._link)
        remote.send(instance, self._outgoing)
        self._calls[number] = remote
        return remote

    def _next_number(self) -> int:
        """A number without a call, because each number has one flag for "started". Raises Overloaded."""
        if len(self._calls) + len(self._questions) >= shared_memory.FLAGS - 1:
            raise Overloaded(f"A worker process has {shared_memory.FLAGS} calls in progress already.")
        while True:
            self._number = self._number % (shared_memory.FLAGS - 1) + 1
            if self._number not in self._calls and self._number not in self._questions:
                return self._number

    async def describe(self, instance: int) -> MetadataModelResponse:
        """A model's metadata. Raises WorkerLost, or the model's error."""
        described: bytes = await self._ask(lambda call: frames.Describe(call, instance))
        return MetadataModelResponse.model_validate_json(described)

    async def ask(self, instance: int, request: HttpRequest) -> HttpResponse:
        """Call a REST route of a model. Raises WorkerLost, or the model's error."""
        response: HttpResponse = await self._ask(lambda call: frames.CallRoute(call, instance, request))
        return response

    async def _ask(self, question: Callable[[int], Frame]) -> Any:
        if self.ended.is_set():
            raise WorkerLost(f"The worker process {self.how}.")
        number = self._next_number()
        result = self._questions.ask(number)
        self._link.send(question(number))
        return await result

    def _received(self, frame: Frame) -> None:
        self._frames[type(frame)](frame)

    def _completed(self, frame: frames.Completed) -> None:
        # Unpacked even without a caller, because dropping the tensors frees their places.
        response = unpack_response(frame.response, self._incoming.view)
        remote = self._calls.pop(frame.call, None)
        if remote is not None:
            self.completed += 1
            remote.completed(response)

    def _item(self, frame: frames.Item) -> None:
        response = unpack_response(frame.response, self._incoming.view)
        remote = self._calls.get(frame.call)
        if remote is not None:
            remote.came(response)

    def _form(self, frame: frames.Form) -> None:
        if len(self._forms) >= frames.MOST_FORMS:
            self._forms.clear()
        self._forms[frame.number] = OutputForm(
            frame.model_name, frame.model_version, frame.name, frame.datatype, frame.shape, frame.base64
        )

    def _item_of(self, frame: frames.ItemOf) -> None:
        remote = self._calls.get(frame.call)
        if remote is not None:
            response = respond(self._forms[frame.form], frame.value, remote.request_id)
            if frame.last:
                del self._calls[frame.call]
                self.completed += 1
                remote.completed(response)
            else:
                remote.came(response)

    def _full(self, frame: frames.Full) -> None:
        remote = self._calls.get(frame.call)
        if remote is not None:
            remote.full()

    def _end(self, frame: frames.Ended) -> None:
        if frame.lingering and frame.call in self._calls:
            self._calls[frame.call].end()  # the model still occupies a thread; if too long, it hangs
        else:
            self._over(frame.call, None)

    def _partly(self, frame: frames.Partly) -> None:
        rest = None if frame.response is None else unpack_response(frame.response, self._incoming.view)
        errors = {row: ModelError(*error) for row, error in frame.errors.items()}
        self._over(frame.call, RowErrors(errors, rest))

    def _over(self, number: int, error: InferstreamError | None) -> None:
        remote = self._calls.pop(number, None)
        if remote is not None:
            self.completed += 1
            remote.finished(error)
        elif error is not None:
            self._questions.fail(number, error)

    def _wanted(self, frame: frames.Wanted) -> None:
        remote = self._calls.get(frame.call)
        if remote is not None:
            remote.wanted(frame.count)

    def _readiness(self, frame: frames.Readiness) -> None:
        if frame.instance in self.models:
            self.models[frame.instance] = frame.ready

    def _lose(self) -> None:
        self._link.drain()
        self._link.close()
        self.ended.set()
        self.models.clear()
        lost = f"The worker process that ran this request {self.how}."
        for number, remote in list(self._calls.items()):
            started = self._flags[number]
            remote.finished(WorkerLost(lost) if started else NeverStarted(lost))
        self._calls.clear()
        self._memory.close()
        self._questions.fail_all(WorkerLost(lost))
