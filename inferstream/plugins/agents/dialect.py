"""JSON-RPC 2.0 routes, and the mapping of methods to models."""

from collections.abc import Sequence
from typing import Any

import orjson

from inferstream.errors import Code, InferstreamError, InvalidRequest, ModelNotFound, PermissionDenied
from inferstream.ext import sse
from inferstream.ext.calls import Admission, Caller, Operation, ServerModels
from inferstream.ext.http import JSON_HEADER, Exchange, InferenceDialect, ParsedRequest, RawHeaders, Route
from inferstream.types import InferenceRequest, InferenceResponse

from . import messages
from .calls import AllAnswered, Prepared, Ready, RpcRequest, Write, encode_result, encode_result_with_objects

PATH = "/rpc"
OBJECTS = "/jsonrpc"
"""The path for BlazeRPC clients, which expect arrays as objects."""

STREAM = "/stream/{model_name}"
PREDICT = "predict."
STREAMS = "stream."

REFUSED_UNREAD = (Code.TOO_LARGE, Code.UNSUPPORTED_ENCODING)
"""Error codes of unread bodies. These errors keep their HTTP status."""


class JsonRpc(InferenceDialect):
    """JSON-RPC requests and batches. The method is the name of a model, and `params` are its inputs."""

    name = "jsonrpc"
    title = "JSON-RPC"
    yields = True
    inferences = {PATH: Operation.INFER, OBJECTS: Operation.INFER}

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> RpcRequest:
        document = messages.load(body)
        batch = messages.split_batch(document)
        prepared = [self._prepare(each, caller) for each in (batch or [document])]
        running = [(each, each.ready) for each in prepared if each.ready is not None]
        if not running:
            raise AllAnswered(prepared, batch is not None)
        return RpcRequest(
            prepared, running, batch is not None, self._settings.max_body_bytes, choose_writer(route)
        )

    def _prepare(self, document: Any, caller: Caller) -> Prepared:
        try:
            message = messages.parse_message(document)
        except InferstreamError as error:
            self._dataplane.log_rejection(caller, "infer", "", error)
            wrong = Prepared(messages.find_id(document), wanted=True)
            wrong.fail(error)
            return wrong
        prepared = Prepared(message.id, message.answered)
        try:
            admission = admit(self._dataplane, message.method, caller)
            prepared.ready = prepare_request(admission, message.params)
        except InferstreamError as error:
            self._dataplane.log_rejection(caller, "infer", message.method, error)
            prepared.fail(error)
        return prepared

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        """Return an error response with status 200, because JSON-RPC reports errors in the body.

        Errors for rejected callers and unread bodies keep their HTTP status.
        """
        if isinstance(error, AllAnswered):
            if error.refusal is None:
                return 200, [JSON_HEADER], error.body
            return *super().error(error.refusal)[:2], error.body
        status, headers, _ = super().error(error)
        shown = error.code in REFUSED_UNREAD or error.refuses_caller
        return status if shown else 200, headers, messages.error_document(None, error)


class JsonRpcStreams(InferenceDialect):
    """Requests for a stream of server-sent events.

    The stream has one event per item, `error` after a failure, and `done` at the end.
    """

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
        return RpcStream(prepare_request(admission, params), choose_writer(route))

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        """Return the failure as events, because clients of these streams do not read the status."""
        status, headers, _ = super().error(error)
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), *headers[1:]]
        return status, headers, failure_events(error)


class RpcStream(ParsedRequest):
    """A request for a stream of JSON events, one per item."""

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
    """Return the events for a failure: `error` and `done`."""
    document = {"error": error.message, "code": error.code.value}
    return sse.named_event("error", orjson.dumps(document)) + DONE


def choose_writer(route: Route) -> Write:
    """Return the result encoder for a route."""
    return encode_result_with_objects if route.template.startswith(OBJECTS) else encode_result


def admit(dataplane: ServerModels, method: str, caller: Caller) -> Admission:
    """Admit a call to the model of a method: `model` or `model:version`, optionally prefixed with `predict.`.

    Raises ModelNotFound, PermissionDenied, or WrongMessage if the method names a stream.
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
            except PermissionDenied as error:  # The key may allow the model without the prefix.
                refusal = error
    if method.startswith(STREAMS):
        raise messages.WrongMessage(f"A stream is asked for at {PATH}/stream/{method.removeprefix(STREAMS)}.")
    raise refusal


def prepare_request(admission: Admission, params: dict[str, Any] | Sequence[Any]) -> Ready:
    """Build the request from `params`.

    Raises InvalidRequest if an argument is invalid or the model declares no inputs.
    """
    flat = admission.flat
    if flat is None:
        raise InvalidRequest(
            f"Model {admission.model} declares no inputs, so it cannot be called by names of arguments."
        )
    request = InferenceRequest.of(flat.arguments.read(params))
    return Ready(admission, request, flat.results)
