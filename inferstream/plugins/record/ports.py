"""Wrappers around HTTP exchanges, RPCs and WebSockets that record their data."""

from collections.abc import Awaitable, Callable
from random import random
from typing import Any

from inferstream.errors import InferstreamError
from inferstream.ext.http import Edge, Listener, RawHeaders, Serve, ServeBytes

from .file import RecordFile
from .recording import PortRecording, RecordedRequest
from .settings import RecordSettings

OpenListener = Callable[[Any, str, RawHeaders, bytes | None], Listener]
"""Opens a conversation on a socket, with its path, headers and optional request id."""


class Recorder(Edge):
    """The edge that records requests."""

    def __init__(self, file: RecordFile, settings: RecordSettings) -> None:
        self._file = file
        self._sample = settings.sample
        self._models = frozenset(settings.models)

    def _begin(self, door: str, dialect: str, model: str, request: RecordedRequest) -> PortRecording:
        recording = PortRecording(self._file.waiting, door, dialect, model, request)
        self._file.open(recording)
        return recording

    def http(self, serve: Serve) -> Serve:
        """Record HTTP exchanges."""

        async def serve_and_record(
            exchange: Any, route: Any, method: str = "POST", query: bytes = b""
        ) -> int:
            model = route.model
            if random() >= self._sample or (self._models and model and model not in self._models):
                return await serve(exchange, route, method, query)
            version = route.version or ""
            head = RecordedRequest(route.template, exchange.headers, method, model, version, query)
            recording = self._begin("http", route.dialect.name, model, head)
            recording.version = version
            status = 499
            try:
                status = await serve(RecordedExchange(exchange, recording), route, method, query)
                return status
            finally:
                self._file.end(recording, status)

        return serve_and_record

    def rpc(self, path: str, serve: ServeBytes, infers: bool) -> ServeBytes:
        """Record the messages of an inference RPC."""
        if not infers:
            return serve

        async def serve_and_record(incoming: bytes | None, context: Any) -> bytes | None:
            if random() >= self._sample:
                return await serve(incoming, context)
            recording = self._begin("grpc", "grpc", "", RecordedRequest(path, context.metadata.pairs))
            status = "CANCELLED"
            try:
                if incoming is not None:
                    recording.add("in", bytes(incoming))
                outgoing = await serve(incoming, RecordedContext(context, recording))
                if outgoing is not None:
                    recording.add("out", outgoing)
                status = "OK"
                return outgoing
            except Exception as error:
                code = getattr(error, "code", None)  # set on an RpcFailed
                status = getattr(code, "name", status)
                raise
            finally:
                self._file.end(recording, status)

        return serve_and_record

    def socket(self, open: OpenListener) -> OpenListener:
        """Record the messages of a WebSocket."""

        def open_and_record(
            socket: Any, path: str, headers: RawHeaders, request_id: bytes | None
        ) -> Listener:
            if random() >= self._sample:
                return open(socket, path, headers, request_id)
            recording = self._begin("websocket", "websocket", "", RecordedRequest(path, headers))
            try:
                listener = open(RecordedSocket(socket, recording), path, headers, request_id)
            except InferstreamError as error:
                recording.code = error.code.value
                self._file.end(recording, 400)
                raise
            return RecordedListener(listener, recording, self._file)

        return open_and_record


class RecordedExchange:
    """An HTTP exchange that records its data."""

    __slots__ = ("_exchange", "_send", "head", "headers", "recording", "task")

    def __init__(self, exchange: Any, recording: PortRecording) -> None:
        self._exchange = exchange
        self.recording = recording
        self._send = exchange.send
        self.headers, self.head, self.task = exchange.headers, exchange.head, exchange.task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exchange, name)

    def body(self, limit: int) -> bytes | Awaitable[bytes]:
        body = self._exchange.body(limit)
        if not isinstance(body, bytes):
            return self._record_body(body)
        self.recording.add("in", body)
        return body

    async def _record_body(self, arriving: Awaitable[bytes]) -> bytes:
        body = await arriving
        self.recording.add("in", body)
        return body

    def respond(self, status: int, headers: Any, body: bytes) -> Awaitable[None] | None:
        self.recording.mark("head", (status, headers))
        self.recording.add("out", body)
        sent: Awaitable[None] | None = self._exchange.respond(status, headers, body)
        return sent

    def open(self, headers: Any) -> None:
        self.recording.mark("head", (200, headers))
        self._exchange.open(headers)

    def send(self, chunk: bytes, last: bool = False) -> Awaitable[None] | None:
        if chunk:
            self.recording.add("out", chunk)
        sent: Awaitable[None] | None = self._send(chunk, last)
        return sent


class RecordedPort:
    """A wrapper around the port that an RPC or conversation writes to. Forwards all other attributes."""

    def __init__(self, port: Any, recording: PortRecording) -> None:
        self._port = port
        self.recording = recording

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


class RecordedContext(RecordedPort):
    """An RPC context that records its messages."""

    async def read(self) -> bytes | None:
        message: bytes | None = await self._port.read()
        if message is not None:
            self.recording.add("in", bytes(message))
        return message

    def write(self, message: bytes) -> Awaitable[None]:
        self.recording.add("out", message)
        written: Awaitable[None] = self._port.write(message)
        return written


class RecordedSocket(RecordedPort):
    """A WebSocket that records the messages it sends."""

    def send(self, message: bytes, text: bool) -> Awaitable[None] | None:
        self.recording.add("out", message.decode() if text else message)
        sent: Awaitable[None] | None = self._port.send(message, text)
        return sent

    def put(self, message: bytes, text: bool) -> None:
        self.recording.add("out", message.decode() if text else message)
        self._port.put(message, text)


class RecordedListener:
    """A conversation that records the messages it receives."""

    def __init__(self, listener: Listener, recording: PortRecording, file: RecordFile) -> None:
        self._listener = listener
        self._recording = recording
        self._file = file

    @property
    def busy(self) -> bool:
        return self._listener.busy

    def receive(self, message: bytes, text: bool) -> None:
        content = message.decode("utf-8", "replace") if text else message
        self._recording.add("in", content)
        self._listener.receive(message, text)

    def lost(self) -> None:
        if self._listener.busy:
            self._recording.code = "cancelled"
        self._listener.lost()
        self._file.end(self._recording, 101)
