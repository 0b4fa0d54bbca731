"""The calls of one WebSocket. Each request is one call, and its id is repeated in its responses."""

import asyncio
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from ...concurrency.inflight import RequestBytes
from ...concurrency.outgoing import Holdable, for_each
from ...concurrency.scope import ClientLeft, Scope
from ...dataplane.access import Action
from ...dataplane.admission import Admission
from ...dataplane.call import Operation
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...dataplane.first_calls import NotLoaded
from ...dataplane.reply import Reply
from ...errors import AlreadyExists, Cancelled, InvalidRequest, Overloaded, Refused
from ...protos.json_checks import JsonLimits
from ...protos.websocket import EncodedMessage, FlatMessages, Messages, SocketMessage, V2Messages, dump_error
from ...telemetry.metrics import Meters
from ...types import InferenceRequest, InferenceResponse
from ...types.parameters import Origin
from ..request_ids import set_request_id
from .dialects.generate import is_flat, read_flat
from .messages import PARSE_IN_THREAD, wrap
from .request_stream import RequestStream

PARSING = object()
"""The reason for pausing a socket while a thread parses a large message."""

AT_ONCE = 64
"""Maximum number of concurrent requests on one socket.

Additional requests are rejected instead of queued, so that the server always reads cancel messages.
"""


class Socket(Origin, Protocol):
    """A WebSocket, on the HTTP port or over ASGI."""

    @property
    def reading(self) -> Holdable: ...

    def send(self, message: bytes, text: bool) -> Awaitable[None] | None:
        """Send a message, or do nothing if the client has disconnected.

        Returns None if the message is sent, else an awaitable that completes when the client reads.
        """

    def put(self, message: bytes, text: bool) -> None:
        """Send a small message without waiting for the client to read."""

    def fail(self, code: int, reason: str) -> None:
        """Close immediately with a reason, and ignore further messages."""

    def handle_idle(self) -> None:
        """Handle the end of the last running call."""


@dataclass(slots=True)
class SocketCall:
    admission: Admission
    requests: RequestStream | None
    held: RequestBytes
    task: asyncio.Task[None]
    begun: bool = False
    failure: Exception | None = None


class Conversation:
    """The running calls of one WebSocket and their messages."""

    def __init__(
        self,
        dataplane: DataPlane,
        limits: JsonLimits,
        meters: Meters,
        socket: Socket,
        model: tuple[str, str | None],
        caller: Caller,
        limit: float | None,
        template: str,
        request_id: bytes | None,
    ) -> None:
        self._dataplane = dataplane
        self._limits = limits
        self._meters = meters
        self._socket = socket
        self._model, self._version = model
        self._caller = caller
        self._limit = limit
        """Time limit of each request in seconds, or None."""
        self._template = template
        self._request_id = request_id
        self._opened = perf_counter()
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, SocketCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost = self._parsing = False
        self._unread: deque[tuple[bytes, bool]] = deque()
        """Messages received while a large one is being parsed."""
        meters.sockets.open += 1
        meters.rest.in_progress += 1

    @property
    def busy(self) -> bool:
        """Whether a call is running."""
        return bool(self._tasks)

    def lost(self) -> None:
        """Cancel all calls, because the client has disconnected."""
        self._lost = True
        self._meters.sockets.open -= 1
        self._meters.rest.in_progress -= 1
        self._meters.rest.requests["GET", self._template, "101"].observe(perf_counter() - self._opened)
        for running in list(self._running.values()):
            running.held.close()
            Scope(running.task).end(ClientLeft())

    def receive(self, message: bytes, text: bool) -> None:
        """Handle a message. The response to an invalid message is an error, and the connection stays open."""
        self._meters.sockets.received += 1
        self._unread.append((message, text))
        if not self._parsing:
            self._read()

    def _read(self) -> None:
        """Handle the received messages in order, up to a large one, which a thread must parse first."""
        while self._unread and not self._parsing:
            message, text = self._unread.popleft()
            if len(message) > PARSE_IN_THREAD:
                self._receive_later(message, text)
                continue
            frame = None
            try:
                frame = SocketMessage(message, text, self._limits)
                self._handle_message(frame)
            except NotLoaded:
                self._receive_later(message, text)
            except Exception as error:
                self._refuse(error, message, text, frame)

    def _receive_later(self, message: bytes, text: bool) -> None:
        self._parsing = True
        self._socket.reading.hold(PARSING)  # so that few more messages arrive
        task = self._loop.create_task(self._receive_large(message, text))
        self._tasks.add(task)
        task.add_done_callback(self._finish_parsing)

    async def _receive_large(self, message: bytes, text: bool) -> None:
        """Handle a message that is slow to parse or whose model has to be loaded first."""
        frame = None
        try:
            with RequestBytes(self._meters.inflight) as held:
                held.add(len(message))
                frame = await asyncio.to_thread(SocketMessage, message, text, self._limits)
            if not self._lost:
                deadline = None if self._limit is None else self._loop.time() + self._limit
                await self._dataplane.when_loaded(partial(self._handle_message, frame), deadline)
        except Exception as error:
            self._refuse(error, message, text, frame)

    def _finish_parsing(self, task: asyncio.Task[None]) -> None:
        self._parsing = False
        self._tasks.discard(task)
        self._socket.reading.release(PARSING)
        if not self._lost:
            self._read()
        if not self._tasks:
            self._socket.handle_idle()

    def _refuse(self, error: Exception, message: bytes, text: bool, frame: SocketMessage | None) -> None:
        if text and isinstance(error, InvalidRequest) and not _is_utf8(message):
            self._socket.fail(1007, "A text message must be UTF-8.")
        else:
            failure = wrap(error)
            self._dataplane.log_rejection(self._caller, "infer", self._model, failure)
            self._put(dump_error(None if frame is None else frame.id, failure))

    def _handle_message(self, frame: SocketMessage) -> None:
        running = None if frame.id is None else self._running.get(frame.id)
        if frame.cancel:
            if running is not None:
                Scope(running.task).end(Cancelled())
        elif frame.part in ("next", "last"):
            # Parts may still arrive after the call has ended. The client learns of the end from the response.
            if running is not None:
                self._forward(running, frame)
        elif running is not None:
            twice = AlreadyExists(f'A request with the id "{frame.id}" is running here.')
            self._dataplane.log_rejection(self._caller, "infer", self._model, twice)
            self._put(dump_error(None, twice))  # no id: it would end the running request
        elif len(self._running) >= AT_ONCE:
            raise Overloaded(f"{AT_ONCE} requests are running on this connection already.")
        else:
            self._start(frame)

    def _start(self, frame: SocketMessage) -> None:
        caller = self._caller
        if self._limit is not None:
            caller = self._caller = caller.until(self._loop.time() + self._limit)
        admission = self._dataplane.admit(self._model, self._version, caller, Action.STREAM)
        admission.size = frame.size
        request, messages = read_message(admission, frame)
        requests = None if frame.part is None else RequestStream(self._socket.reading)
        streams = requests is not None or admission.pipeline.execution.capabilities.streams
        operation = Operation.STREAM if streams else Operation.INFER
        admission.identify(request)  # every response repeats the id
        assert request.id is not None
        id = request.id
        held = RequestBytes(self._meters.inflight)
        held.add_whole(frame.size)
        task = self._loop.create_task(self._run(operation, request, messages, id))
        self._running[id] = SocketCall(admission, requests, held, task)
        self._tasks.add(task)
        task.add_done_callback(partial(self._handle_end, id))

    def _forward(self, running: SocketCall, frame: SocketMessage) -> None:
        if running.requests is None:
            text = f'The request with the id "{frame.id}" was a whole one: it has no "{frame.part}" part.'
            self._put(dump_error(None, InvalidRequest(text)))
            return
        try:
            if not frame.bare or frame.part == "next":
                request, _ = frame.request(nested=running.admission.pipeline.takes_any)
                running.admission.identify(request)
                running.admission.count_message(frame.size)
                running.requests.add(request, frame.size)
        except (InvalidRequest, Refused) as error:
            running.failure = error  # in case the call is not open yet
            running.admission.end(error)
        if frame.part == "last":
            running.requests.end()

    async def _run(
        self, operation: Operation, request: InferenceRequest, messages: Messages, request_id: str
    ) -> None:
        running = self._running[request_id]
        running.begun = True
        admission, requests, failure = running.admission, running.requests, running.failure
        del running  # it refers to the task, and the task to this frame: a reference cycle
        if self._request_id is not None:
            set_request_id(self._request_id)
        try:
            if failure is not None:
                self._dataplane.log_rejection(admission.caller, operation.value, self._model, failure)
                raise failure
            async with await admission.open(operation, request, requests) as reply:
                last = await self._send_all(reply, messages, admission)
            if last is None:
                last = messages.end(self._model, self._version, request_id)
        except Exception as error:
            last = dump_error(request_id, wrap(error))
        self._forget(request_id)
        if (waiting := self._send(last)) is not None:
            await waiting

    async def _send_all(
        self, reply: Reply, messages: Messages, admission: Admission
    ) -> EncodedMessage | None:
        """Send every response.

        A single response is returned instead of sent, because it is also the final message.
        """
        usage = admission.usage

        def written(response: InferenceResponse, final: bool) -> EncodedMessage:
            message = messages.dump(response, final=final)
            if usage is not None:
                usage.sent += len(message[0])
            return message

        if reply.single:
            assert reply.first is not None
            return written(reply.first, final=True)
        await for_each(reply, lambda response: self._send(written(response, final=False)))
        return None

    def _send(self, message: EncodedMessage) -> Awaitable[None] | None:
        self._meters.sockets.sent += 1
        return self._socket.send(*message)

    def _put(self, message: EncodedMessage) -> None:
        self._meters.sockets.sent += 1
        self._socket.put(*message)

    def _forget(self, request_id: str) -> None:
        """Free the id, before the client can read the final response and reuse it."""
        running = self._running.pop(request_id, None)
        if running is not None:
            if running.requests is not None:
                running.requests.close()
            running.held.close()

    def _handle_end(self, request_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        running = self._running.get(request_id)
        if running is not None and running.task is task:
            self._forget(request_id)
            if not running.begun:
                running.admission.count_early_end()
            if not self._lost:
                self._put(dump_error(request_id, Cancelled()))
        if not self._tasks:
            self._socket.handle_idle()


def read_message(admission: Admission, frame: SocketMessage) -> tuple[InferenceRequest, Messages]:
    """Return the request in a message and the writer of its responses. Raises InvalidRequest."""
    if frame.flat and is_flat(admission, frame.document):
        request, values = read_flat(admission, _without_model(admission, frame.document), frame.text)
        return request, FlatMessages(request.id is not None, values)
    request, binary = frame.request(nested=admission.pipeline.takes_any)
    return request, V2Messages(binary)


def _without_model(admission: Admission, document: dict[str, Any]) -> dict[str, Any]:
    """Return flat JSON without the key `model`, unless the model has an input of that name.

    Raises InvalidRequest if `model` is not the model of the connection.
    """
    signature = admission.signature
    inputs = signature.inputs or signature.described
    if "model" not in document or any(tensor.name == "model" for tensor in inputs):
        return document
    if document["model"] != admission.model:
        raise InvalidRequest(
            f'"model" names another model than this connection, which is "{admission.model}"'
        )
    return {name: value for name, value in document.items() if name != "model"}


def _is_utf8(message: bytes) -> bool:
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True
