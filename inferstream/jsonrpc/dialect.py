"""The paths of JSON-RPC 2.0, and how a method becomes a call of a model."""

from collections.abc import Sequence
from typing import Any

import orjson

from inferstream.errors import Code, InferstreamError, InvalidRequest, ModelNotFound, PermissionDenied
from inferstream.ext import sse
from inferstream.ext.calls import Admission, Caller, Operation, ServerModels
from inferstream.ext.http import JSON_HEADER, Exchange, InferenceDialect, ParsedRequest, RawHeaders, Route
from inferstream.types import InferenceRequest, InferenceResponse

from . import messages
from .calls import AllAnswered, Prepared, Ready, RpcRequest, Write, written, written_with_objects

PATH = "/rpc"
OBJECTS = "/jsonrpc"
"""The path of BlazeRPC's clients, which read arrays as objects."""

STREAM = "/stream/{model_name}"
PREDICT = "predict."
STREAMS = "stream."

REFUSED_UNREAD = (Code.TOO_LARGE, Code.UNSUPPORTED_ENCODING)
"""Errors of bodies that are not read; they keep their HTTP status."""


class JsonRpc(InferenceDialect):
    """Single requests and batches: a method is the name of a model, `params` are its inputs."""

    name = "jsonrpc"
    title = "JSON-RPC"
    yields = True
    inferences = {PATH: Operation.INFER, OBJECTS: Operation.INFER}

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> RpcRequest:
        document = messages.load(body)
        batch = messages.batch_of(document)
        prepared = [self._prepare(each, caller) for each in (batch or [document])]
        running = [(each, each.ready) for each in prepared if each.ready is not None]
        if not running:
            raise AllAnswered(prepared, batch is not None)
        return RpcRequest(
            prepared, running, batch is not None, self._settings.max_body_bytes, writer_of(route)
        )

    def _prepare(self, document: Any, caller: Caller) -> Prepared:
        try:
            message = messages.message_of(document)
        except InferstreamError as error:
            self._dataplane.refused(caller, "infer", "", error)
            wrong = Prepared(messages.id_of(document), wanted=True)
            wrong.failed(error)
            return wrong
        prepared = Prepared(message.id, message.answered)
        try:
            admission = admit(self._dataplane, message.method, caller)
            prepared.ready = ready(admission, message.params)
        except InferstreamError as error:
            self._dataplane.refused(caller, "infer", message.method, error)
            prepared.failed(error)
        return prepared

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        """Status 200, because the status of JSON-RPC is in the body, but that of a refusal for lack of a right."""
        if isinstance(error, AllAnswered):
            if error.refusal is None:
                return 200, [JSON_HEADER], error.body
            return *super().error(error.refusal)[:2], error.body
        status, headers, _ = super().error(error)
        shown = error.code in REFUSED_UNREAD or error.refuses_caller
        return status if shown else 200, headers, messages.error_document(None, error)


class JsonRpcStreams(InferenceDialect):
    """Streams: each item is an event, the last event is named `done` or `error`."""

    name = "jsonrpc"
    yields = True
    inferences = {PATH + STREAM: Operation.STREAM, OBJECTS + STREAM: Operation.STREAM}

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> "RpcStream":
        assert admission is not None
        document = messages.load(body) if body else {}
        if not isinstance(document, dict):
            raise messages.WrongMessage("The body must be an object with params.")
        params = document.get("params", {})
        if not isinstance(params, dict | list):
            raise messages.WrongMessage('"params" must be an object or a list.')
        return RpcStream(ready(admission, params), writer_of(route))

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        """The event of a stream that fails, because clients of this dialect read no status."""
        status, headers, _ = super().error(error)
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), *headers[1:]]
        return status, headers, failure_events(error)


class RpcStream(ParsedRequest):
    """A request for the items of a stream. It writes each as an event of its JSON value."""

    __slots__ = ("_results", "_write")

    def __init__(self, ready: Ready, write: Write) -> None:
        self.admission, self.request, self._results = ready
        self.operation = Operation.STREAM
        self._write = write

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return [JSON_HEADER], self._write(self._results, response)

    def events(self) -> "RpcStream":
        return self

    def __call__(self, response: InferenceResponse) -> bytes:
        return sse.event(self._write(self._results, response))

    def end(self) -> bytes:
        return DONE

    def failure(self, error: InferstreamError) -> bytes:
        return failure_events(error)


DONE = sse.named_event("done", b"{}")


def failure_events(error: InferstreamError) -> bytes:
    """The events of a failure, and of the end that follows it."""
    document = {"error": error.message, "code": error.code.value}
    return sse.named_event("error", orjson.dumps(document)) + DONE


def writer_of(route: Route) -> Write:
    """How results are written at a path."""
    return written_with_objects if route.template.startswith(OBJECTS) else written


def admit(dataplane: ServerModels, method: str, caller: Caller) -> Admission:
    """Admission to the model of a method: `model`, `model:version`, and `predict.` before either.

    Raises ModelNotFound, PermissionDenied, and WrongMessage for a stream.
    """
    missing = ModelNotFound(method.removeprefix(PREDICT))
    refusal: InferstreamError = missing
    for name in (method, *([method.removeprefix(PREDICT)] if method.startswith(PREDICT) else [])):
        model, _, version = name.rpartition(":")
        for named, its in ((name, None), *(((model, version),) if model and version else ())):
            try:
                return dataplane.admit(named, its, caller)
            except ModelNotFound:
                refusal = missing
            except PermissionDenied as error:  # the key may allow the model behind the prefix
                refusal = error
    if method.startswith(STREAMS):
        raise messages.WrongMessage(f"A stream is asked for at {PATH}/stream/{method.removeprefix(STREAMS)}.")
    raise refusal


def ready(admission: Admission, params: dict[str, Any] | Sequence[Any]) -> Ready:
    """The request of these params. Raises InvalidRequest, which names the argument."""
    flat = admission.pipeline.flat
    if flat is None:
        raise InvalidRequest(
            f"Model {admission.model} declares no inputs, so it cannot be called by names of arguments."
        )
    request = InferenceRequest.of(flat.arguments.read(params))
    return Ready(admission, request, flat.results)
