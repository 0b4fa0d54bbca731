"""A model in a worker: its calls, and the transmission of their responses."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ...concurrency.channel import Channel, SizedChannel
from ...concurrency.scope import is_own_cancel
from ...context import RequestContext, enter, request_context, request_id_var
from ...errors import InferenceFailed, InferstreamError
from ...processes.frames import UNENCODABLE, pack_failure
from ...processes.link import Link
from ...processes.shared_memory import Outgoing
from ...protos.unwritable_outputs import log_unwritable_output
from ...rows import RowErrors
from ...settings import ModelSettings
from ...telemetry.model_meters import ModelMeters
from ...types import InferenceRequest, InferenceResponse
from ...types.forms import OutputForm
from ..call import Call, Handler, Operation
from ..call_values import unpack_values
from ..execution.local import Local
from ..reply import Reply
from ..stages.limits import Limits, release_call_values
from ..stages.show_errors import ToldErrors, attach_traceback
from ..turns import Turns
from .edge import WorkerEdge
from .frames import (
    MAX_FORMS,
    Ended,
    Failed,
    Form,
    Full,
    Item,
    ItemOf,
    Open,
    Partly,
    Readiness,
    Wanted,
)
from .packing import pack_response, places_in

logger = logging.getLogger("inferstream.worker")

WINDOW_BYTES = 2**18
"""Number of bytes by which a stream may be ahead of its reader, plus one response."""

AHEAD = 8
"""Number of later requests that are fetched in advance, which hides the latency between processes."""


class Instance:
    """A loaded model in a worker. Its concurrency limit applies to the calls of all front ends together."""

    def __init__(self, local: Local, models: "Models") -> None:
        self.local = local
        self.ready = True
        self.meters = ModelMeters(local.settings.name, local.settings.version)
        local.meter(self.meters)
        aging = local.settings.priority_aging
        turns = None if models.turns is None else models.turns()
        self.handler: Handler = Limits(
            _mark_start(local), local.slots, 2**31, aging, self.meters.queue, turns
        )
        if turns is not None:
            local.set_turns(turns)
            self.handler = release_call_values(self.handler)
        for edge in models.edges:
            self.handler = edge.call(self.handler)
        if models.shows_errors:
            self.handler = ToldErrors(self.handler, attach_traceback, lambda call: True)

    def readiness(self, number: int) -> Readiness:
        """Create a frame with the current state. `number` is the number of this instance."""
        return Readiness(number, self.ready, self.local.slots.count)


class Models:
    def __init__(self) -> None:
        self.instances: dict[int, Instance] = {}
        self.edges: list[WorkerEdge] = []
        self.marks: list[Callable[[InferenceRequest, str], None]] = []
        self.turns: Callable[[], Turns] | None = None
        self.shows_errors = False


def _mark_start(inner: Handler) -> Handler:
    """Wrap a handler so that it marks each call as started."""

    def handle(call: Call) -> Awaitable[Reply]:
        call.on_start()
        return inner(call)

    return handle


class WorkerCall(Call):
    """A call in a worker. When it starts, it sets a flag in shared memory that survives a crash."""

    __slots__ = ("_flags", "_number", "halved")

    def __init__(
        self,
        frame: Open,
        request: InferenceRequest,
        settings: ModelSettings,
        more: "RemoteRequests | None",
        flags: memoryview,
    ) -> None:
        deadline = None
        if frame.remaining is not None:
            deadline = asyncio.get_running_loop().time() + frame.remaining
        super().__init__(
            Operation.STREAM if frame.stream else Operation.INFER,
            settings.name,
            settings.version,
            request,
            {},
            more,
            deadline,
            priority=frame.priority,
            principal=frame.principal,
        )
        self.trace = frame.trace
        self.halved = frame.halved
        if frame.values is not None:
            unpack_values(self, frame.values)
        self._flags = flags
        self._number = frame.call

    def on_start(self) -> None:
        self._flags[self._number] = 1


class ResponseSender:
    """Runs a call of a front end, and sends its responses at the pace of the reader."""

    __slots__ = (
        "_arena",
        "_forms",
        "_link",
        "_request_id",
        "_single",
        "_unread",
        "call",
        "more",
        "number",
    )

    def __init__(
        self,
        call: Call,
        frame: Open,
        more: "RemoteRequests | None",
        link: Link,
        arena: Outgoing,
        forms: dict[OutputForm, int],
    ) -> None:
        """`forms` maps forms to their numbers, for the forms that were sent to the front end."""
        self.call = call
        self.number = frame.call
        self.more = more
        self._link = link
        self._request_id = frame.request_id
        self._arena = arena
        self._forms = forms
        self._single = not frame.stream
        if frame.stream:
            self._unread: SizedChannel[None] = SizedChannel(frame.window, WINDOW_BYTES)

    async def run(self, handler: Handler) -> None:
        """Run the call, and always report its end."""
        if self._request_id:
            request_id_var.set(self._request_id)
        enter(RequestContext())  # For calls that end before their model runs.
        try:
            await self._run(handler)
        except BaseException as error:  # The front end always waits for the end of the call.
            if self.call.over(error) or is_own_cancel(error):
                self._report_cancellation()
                return
            if not isinstance(error, InferstreamError):
                logger.exception("request %s failed", self.call.request.id)
                error = InferenceFailed("The worker failed; the server's log says why.")
            self._fail(error)

    def _report_cancellation(self) -> None:
        """Report the end. Code in threads cannot be interrupted, and may still be running."""
        thread = request_context().thread
        if thread is None or thread.done():
            self._link.send(Ended(self.number))
            return
        self._link.send(Ended(self.number, lingering=True))
        # Must not capture `self`: a future keeps its callbacks, and the context of the call's task keeps the
        # future.
        loop, send, end = asyncio.get_running_loop(), self._link.send, Ended(self.number)
        thread.add_done_callback(lambda _: loop.call_soon_threadsafe(send, end))

    def _fail(self, error: InferstreamError) -> None:
        if isinstance(error, RowErrors):
            try:
                errors = {row: (each.message, each.status_code) for row, each in error.errors.items()}
                rest = None if error.response is None else pack_response(error.response, self._arena.put)
                self._send(Partly(self.number, errors, rest))
                return
            except InferstreamError as unencodable:
                error = unencodable
        self._link.send(Failed(self.number, pack_failure(error)))

    async def _run(self, handler: Handler) -> None:
        async with await handler(self.call) as reply:
            if self._single:
                assert reply.first is not None
                reply.first.accept(self)
                return
            async for response in reply:
                size = response.accept(self)
                del response  # The next response may take a while.
                self._unread.put(None, size)
                if not self._unread.has_room():
                    self._link.send(Full(self.number))
                    await self._unread.room()
        self._link.send(Ended(self.number))

    def tensors(self, response: InferenceResponse) -> int:
        """Send a response. Returns the number of bytes that it occupies until it is read."""
        before = self._arena.written
        size = self._send(Item(self.number, pack_response(response, self._arena.put), self._single))
        return size + self._arena.written - before

    def value(self, form: OutputForm, response: InferenceResponse) -> int:
        if response.id != self.call.request.id:  # The id of a later request.
            return self.tensors(response)
        number = self._forms.get(form)
        if number is None:
            if len(self._forms) >= MAX_FORMS:
                self._forms.clear()  # Like the receiver of the frame.
            number = self._forms[form] = len(self._forms)
            self._link.send(Form(number, form))
        try:
            return self._link.send(ItemOf(self.number, number, response.value, self._single))
        except UNENCODABLE as error:
            if not isinstance(error, UnicodeEncodeError) or not isinstance(response.value, str):
                raise log_unwritable_output(error, form.name, self.call.model) from error
        units = response.value.encode(
            "utf-16-le", "surrogatepass"
        )  # Unpaired surrogates are replaced or rejected when the response is encoded.
        return self._link.send(ItemOf(self.number, number, units, self._single, halved=True))

    def _send(self, frame: Item | Partly) -> int:
        try:
            return self._link.send(frame)
        except UNENCODABLE as error:
            outputs = frame.response.outputs if frame.response else []
            self._arena.free(places_in(outputs))
            name = outputs[0].name if len(outputs) == 1 else None
            raise log_unwritable_output(error, name, self.call.model) from error

    def credit(self, count: int) -> None:
        for _ in range(count):
            self._unread.pop()
        if not self._unread.has_room():
            self._link.send(Full(self.number))


class RemoteRequests(Channel[InferenceRequest]):
    """The later requests of a bidirectional stream, fetched slightly in advance."""

    def __init__(self, call: int, link: Link) -> None:
        super().__init__(AHEAD)
        self._call = call
        self._link = link
        self._asked = 0

    def __anext__(self) -> Coroutine[Any, Any, InferenceRequest]:
        if self._asked + len(self._items) <= AHEAD // 2 and self.open:
            count = AHEAD - self._asked - len(self._items)
            self._asked += count
            self._link.send(Wanted(self._call, count))
        return super().__anext__()

    def receive(self, request: InferenceRequest) -> None:
        self._asked -= 1
        self.put(request)
