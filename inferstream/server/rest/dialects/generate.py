"""The generate extension of Triton, at paths that MLServer uses for V2 requests.

The dialect header and the body determine which of the two a request is. Plug-ins may add a `GenerateFormat`.
"""

from typing import Any

import orjson

from ....codecs.values.flat import FlatArguments
from ....dataplane.admission import Admission
from ....dataplane.call import Operation
from ....dataplane.caller import Caller
from ....errors import InferstreamError, InvalidRequest
from ....extensions.discovery import input_names
from ....protos import json_requests, sse
from ....protos.dialects import HEADER, parse_dialect
from ....protos.generate import (
    FlatValues,
    FlatWriter,
    is_v2,
    parse_arguments,
    parse_flat,
)
from ....protos.json_arrays import load_exactly
from ....protos.json_events import ValueEvents
from ....types import InferenceRequest, InferenceResponse, RequestInput
from ....types.forms import OutputForm
from ..exchange import Exchange
from ..messages import JSON, RawHeaders
from .base import InferenceDialect, ParsedRequest, Route
from .generate_format import GenerateFormat
from .v2 import v2_request, with_binary

DIALECT = HEADER.encode()
IN_FLAT_JSON = "triton"
"""The name of the dialect and of its native request format."""

FORMS = {"mlserver": ("v2",), IN_FLAT_JSON: ()}
"""The format names that clients may request: V2 with its alias, and flat JSON."""

IN_V2: RawHeaders = [(DIALECT, b"mlserver")]
FLAT: RawHeaders = [(DIALECT, IN_FLAT_JSON.encode())]


class Generate(InferenceDialect):
    """`generate` and `generate_stream` of every model."""

    name = IN_FLAT_JSON
    inferences = {
        "/v2/models/{model_name}/generate": Operation.INFER,
        "/v2/models/{model_name}/generate_stream": Operation.STREAM,
    }
    resumable = True
    takes_files = True
    queried = ("/v2/models/{model_name}/generate_stream",)

    def of_inputs(
        self, admission: Admission, operation: Operation, inputs: list[RequestInput]
    ) -> ParsedRequest:
        flat = admission.pipeline.flat
        values = None if flat is None else flat.results.document
        return FlatRequest(admission, operation, InferenceRequest.of(inputs), values)

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        assert admission is not None
        asked = parse_dialect(dict(exchange.headers).get(DIALECT, b"").decode("latin-1"), FORMS)
        length = exchange.head.header_length(len(body))
        if length is not None:
            return with_binary(admission, route.operation, body, length, IN_V2)
        document, body = json_requests.load_request(body)
        if asked is None and (other := admission.facet(GenerateFormat)) is not None:
            parsed = other.parse(admission, route.operation, document, body, self._settings.max_body_bytes)
            if parsed is not None:
                return parsed
        if asked == IN_FLAT_JSON or (asked is None and is_flat(admission, document)):
            request, values = read_flat(admission, document, body)
            return FlatRequest(admission, route.operation, request, values)
        return v2_request(admission, route.operation, document, body, None, IN_V2)


def is_flat(admission: Admission, document: Any) -> bool:
    """Whether a body is flat JSON for this model instead of a V2 request."""
    flat = admission.pipeline.flat
    if flat is not None and flat.strict and "inputs" in flat.arguments.names:
        return True
    return not is_v2(document, admission.signature.declared_inputs)


def read_flat(admission: Admission, document: Any, text: bytes) -> tuple[InferenceRequest, FlatValues | None]:
    """Parse flat JSON. Returns the request, and the output formatter if the model is a function.

    A function requires exactly its declared arguments. Raises InvalidRequest.
    """
    flat = admission.pipeline.flat
    if flat is None or not flat.strict:
        request = parse_flat(
            document, text, admission.signature.declared_inputs, admission.signature.described
        )
        if flat is not None:
            _require_inputs(flat.arguments, request)
        return request, None
    values, request_id = parse_arguments(document, text, flat.arguments.names)
    form = admission.pipeline.form
    if form is not None and form.fits(values):
        return InferenceRequest.of_values(form, values, request_id), flat.results.document
    if flat.arguments.takes_json:
        values, request_id = parse_arguments(load_exactly(document, text), text, flat.arguments.names)
    return InferenceRequest.of(flat.arguments.read(values), request_id), flat.results.document


def _require_inputs(arguments: FlatArguments, request: InferenceRequest) -> None:
    """Raise InvalidRequest for a missing input, because a misspelled key would silently become a parameter.

    Inputs that plug-in dialects fill in on request may be missing.
    """
    given = {tensor.name for tensor in request.inputs} | input_names("optional_inputs")
    for name in arguments.required:
        if name not in given:
            raise InvalidRequest(f'input "{name}" is missing; {arguments.list_inputs()}')


class FlatRequest(ParsedRequest):
    """A flat JSON request. As in Triton, the response repeats an id only if the client sent one."""

    __slots__ = ("_writer",)

    headers = FLAT

    def __init__(
        self,
        admission: Admission,
        operation: Operation,
        request: InferenceRequest,
        values: FlatValues | None = None,
    ) -> None:
        """`values` formats the outputs of a function. If None, tensors are formatted as in Triton."""
        self.admission = admission
        self.operation = operation
        self.request = request
        self._writer = FlatWriter(request.id is not None, values)

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return [JSON], response.accept(self._writer)

    def events(self) -> "FlatEvents":
        return FlatEvents(self._writer)

    def failure(self, error: InferstreamError) -> bytes:
        """Return an event without a type, because generate clients do not support event types."""
        return sse.event(orjson.dumps({"error": error.message}))


class FlatEvents(ValueEvents):
    """Formats each response as a flat object, with an id if the client sent one."""

    __slots__ = ("_writer",)

    def __init__(self, writer: FlatWriter) -> None:
        super().__init__()
        self._writer = writer

    def _get_frame(self, form: OutputForm, request_id: str | None) -> tuple[bytes, bytes] | None:
        return self._writer.get_frame(form)

    def _write(self, response: InferenceResponse) -> bytes:
        return sse.response_event(response.parameters, response.accept(self._writer))
