"""V2 inference in JSON or with binary tensors, and the `infer_stream` route of MLServer."""

from typing import Any

import orjson

from ....codecs.values.base import OPTIONAL, fact
from ....dataplane.admission import Admission
from ....dataplane.call import INFER, Operation
from ....dataplane.caller import Caller
from ....errors import InferstreamError
from ....protos import json_requests, sse
from ....protos.json_body import JsonBody
from ....protos.json_events import EventWriter
from ....protos.json_responses import IN_JSON, JsonWriter
from ....types import InferenceRequest, InferenceResponse, RequestInput
from ..exchange import Exchange
from ..messages import JSON, RawHeaders
from .base import Events, InferenceDialect, ParsedRequest, Route

BINARY = (b"content-type", b"application/octet-stream")
NO_HEADERS: RawHeaders = []


class V2(InferenceDialect):
    """`infer` and `infer_stream` of every model."""

    name = "v2"
    inferences = {
        "/v2/models/{model_name}/infer": Operation.INFER,
        "/v2/models/{model_name}/infer_stream": Operation.STREAM,
    }
    resumable = True
    takes_files = True

    def of_inputs(
        self, admission: Admission, operation: Operation, inputs: list[RequestInput]
    ) -> ParsedRequest:
        return V2Request(admission, operation, InferenceRequest.of(inputs), None)

    def of_json(self, admission: Admission, operation: Operation, body: JsonBody) -> "V2Request":
        return v2_request(admission, operation, body.document, body.text)

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> "V2Request":
        assert admission is not None
        head = exchange.head
        if head.json_length is not None and (length := head.header_length(len(body))) is not None:
            return with_binary(admission, route.operation, body, length)
        document, body = json_requests.load_request(body)
        form = admission.pipeline.form
        if form is not None and (values := json_requests.build_values_request(document, body, form)):
            return V2Request(admission, route.operation, values, None)
        return v2_request(admission, route.operation, document, body)


def with_binary(
    admission: Admission,
    operation: Operation,
    body: bytes,
    length: int,
    headers: RawHeaders = NO_HEADERS,
) -> "V2Request":
    """Parse a body of `length` bytes of JSON followed by binary tensors. Raises InvalidRequest."""
    if length == 0:
        signature = admission.signature
        inputs = signature.inputs or ()
        needed = [tensor for tensor in inputs if not fact(tensor, OPTIONAL)] or inputs
        request, binary = json_requests.build_raw_request(memoryview(body), needed)
        # A function returns JSON unless the client requests binary outputs.
        asked = None if signature.inputs_annotated else binary
        return V2Request(admission, operation, request, asked, headers)
    document, text = json_requests.load_request(body[:length])
    tail = memoryview(body)[length:]
    return v2_request(admission, operation, document, text, tail, headers)


def v2_request(
    admission: Admission,
    operation: Operation,
    document: Any,
    text: bytes,
    tail: memoryview | None = None,
    headers: RawHeaders = NO_HEADERS,
) -> "V2Request":
    """Build a request from JSON, with binary tensors in `tail`. Raises InvalidRequest."""
    nested, single = admission.pipeline.takes_any, operation is INFER
    request, binary = json_requests.build_request(document, text, tail, nested=nested, references=single)
    return V2Request(admission, operation, request, binary, headers)


class V2Request(ParsedRequest):
    """A V2 request. `headers` are added to its response, and `binary` selects the binary outputs."""

    __slots__ = ("_writer", "headers")

    compressible = True

    def __init__(
        self,
        admission: Admission,
        operation: Operation,
        request: InferenceRequest,
        binary: json_requests.BinaryOutputs | None,
        headers: RawHeaders = NO_HEADERS,
    ) -> None:
        self.admission = admission
        self.operation = operation
        self.request = request
        self._writer = IN_JSON if binary is None else JsonWriter(binary)
        self.headers = headers

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        text, blobs = response.accept(self._writer)
        if not blobs:
            return [JSON], text
        length = (b"inference-header-content-length", b"%d" % len(text))
        return [BINARY, length], b"".join((text, *blobs))

    def events(self) -> Events:
        return EventWriter()

    def failure(self, error: InferstreamError) -> bytes:
        """Return an event of type `error` with the message, the code and the request id."""
        document = {"error": error.message, "code": error.code.value}
        if self.request.id is not None:
            document["id"] = self.request.id
        return b"event: error\n" + sse.event(orjson.dumps(document))
