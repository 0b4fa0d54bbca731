"""APIs that accept a list of instances: KServe V1, SageMaker, Vertex AI and MLflow."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from inferstream import Settings
from inferstream.errors import InferstreamError, InvalidRequest, Unsupported
from inferstream.ext.calls import Action, Admission, Caller, Operation, ServerModels
from inferstream.ext.http import (
    JSON_HEADER,
    Answer,
    Exchange,
    InferenceDialect,
    ParsedRequest,
    RawHeaders,
    ReadClaim,
    Route,
    UnaryRequest,
    dump_json,
    json_answer,
    json_limits,
    keys_in,
    refuse_duplicate_keys,
)
from inferstream.ext.telemetry import Meters
from inferstream.plugins.cloudevents.dialect import EventRequest, read_event
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput, TensorData

from .explaining import EXPLAIN
from .instance_fields import (
    decode_bytes,
    is_frame,
    parse_instances,
    parse_parameters,
    read_json,
)
from .scoring import ScoringError, ScoringRequest, takes_scoring

PREDICT = "/v1/models/{model_name}:predict"
EXPLAIN_PATH = "/v1/models/{model_name}:explain"
INVOCATIONS, PING = "/invocations", "/ping"

PREDICT_ROUTE, HEALTH_ROUTE = "AIP_PREDICT_ROUTE", "AIP_HEALTH_ROUTE"
"""Vertex AI environment variables that contain a path."""

SERVED = ("/v1/models/", "/v2/", "/health", PING, INVOCATIONS)
"""Prefixes of built-in paths, which the environment variables cannot replace."""

MAX_SINGLE = 16_384
"""Maximum number of instances that each become a request. This many take about two seconds of CPU time."""

UNNAMED = "input-0"
"""The input name for models that do not declare any, as in KServe."""


class Instances(InferenceDialect):
    """Takes a list of instances and returns one prediction for each. V2 requests get V2 responses."""

    name = "instances"
    yields = True

    def __init__(self, dataplane: ServerModels, settings: Settings, meters: Meters) -> None:
        super().__init__(dataplane, settings, meters)
        self._json = json_limits(settings)
        self.inferences = dict.fromkeys(
            (PREDICT, EXPLAIN_PATH, INVOCATIONS, *_read_path_variable(PREDICT_ROUTE)), Operation.INFER
        )

    def reads(self) -> Sequence[ReadClaim]:
        return [
            ReadClaim(path, Action.HEALTH, self._ready) for path in (PING, *_read_path_variable(HEALTH_ROUTE))
        ]

    def error(self, error: InferstreamError) -> Answer:
        return error.answer if isinstance(error, ScoringError) else super().error(error)

    async def _ready(self, *_: object) -> Answer:
        ready = self._dataplane.ready
        return json_answer({}) if ready else json_answer({"error": "The server is not ready."}, 503)

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        if admission is None:
            names = (name for name, _ in self._dataplane.models(caller))
            name = self._only_model(names, "there are {}", "none is loaded")
            admission = self._dataplane.admit(name, None, caller)
        event, body = read_event(exchange.head.media_type, exchange.headers, body, self._json.check)
        asked = self._parse_request(exchange, body, route, admission)
        return asked if event is None else EventRequest(asked, event)

    def _parse_request(
        self, exchange: Exchange, body: bytes, route: Route, admission: Admission
    ) -> ParsedRequest:
        """Parse the request in a body, or in the data of an event."""
        explained = route.template.endswith(":explain")
        if explained and "explain" not in admission.capabilities.adapted:
            raise Unsupported(f"Model {admission.model} has no method explain.")
        if exchange.head.header_length(len(body)) is not None:
            return self._v2.parse(exchange, body, route, admission.caller, admission)
        if route.template == INVOCATIONS and takes_scoring(admission, body):
            return ScoringRequest(admission, exchange.head.media_type, body)
        json = read_json(exchange.head.media_type, body)
        document = json.document
        if not isinstance(document, dict):
            raise InvalidRequest("The body must be a JSON object.")
        v2 = "instances" not in document and json.is_v2(admission.signature.declared_inputs)
        if v2 and "params" in document:
            raise InvalidRequest('"params" is not a field of a V2 request; it has "parameters"')
        if v2 and not explained:
            return self._v2.of_json(admission, route.operation, json)
        refuse_duplicate_keys(json.text, keys_in(document))
        if (flat := admission.flat) is not None and flat.strict and flat.arguments.takes_json:
            document = json.exact()
        if b'"b64"' in json.text:
            document = decode_bytes(document)
        parameters, instances = parse_parameters(document), parse_instances(document)
        if is_frame(document, instances, admission.signature):
            parameters = {"content_type": "pd", **parameters}
        if explained:
            parameters = {**parameters, EXPLAIN: True}
        each = _takes_one(admission)
        documents = [instances]
        if each and not isinstance(instances, dict):
            documents = json.listed(instances, "instances")
            if len(documents) > MAX_SINGLE:
                raise InvalidRequest(
                    f'"instances": {len(documents)} are more than the {MAX_SINGLE} that a model without a '
                    "dimension of rows takes"
                )
        requests = [_request(admission, document, parameters) for document in documents]
        return InstancesRequest(admission, requests, each, "explanations" if explained else "predictions")


def _read_path_variable(variable: str) -> Sequence[str]:
    """Return the path in a Vertex AI variable. Empty if it is not set or is a built-in path."""
    path = os.environ.get(variable, "")
    return () if not path.startswith("/") or path == "/" or path.startswith(SERVED) else (path,)


def _takes_one(admission: Admission) -> bool:
    """Whether the model takes one instance per request."""
    flat = admission.flat
    declared = admission.signature.declared_inputs
    return (flat is not None and flat.strict) or any(tensor.shape[:1] != [-1] for tensor in declared)


class InstancesRequest(UnaryRequest):
    """Instances as the rows of one request, or as separate requests for models that take only one."""

    __slots__ = ("_each", "_field")

    def __init__(
        self, admission: Admission, requests: Sequence[InferenceRequest], each: bool, field: str
    ) -> None:
        """`each` is true if each request has one instance.

        `field` is the response field of the predictions.
        """
        super().__init__(admission, requests)
        self._each = each
        self._field = field

    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        predictions = [self._predictions(response) for response in responses]
        return [JSON_HEADER], dump_json(
            {self._field: [each for rows in predictions for each in rows] if self._each else predictions[0]}
        )

    def _predictions(self, response: InferenceResponse) -> list[Any] | dict[str, Any]:
        flat = self.admission.flat
        if flat is not None and flat.strict:
            return [response.accept(flat.results)]
        rows = self._rows(response)
        return rows if not self._each or (isinstance(rows, list) and len(rows) == 1) else [rows]

    def _rows(self, response: InferenceResponse) -> list[Any] | dict[str, Any]:
        """Return the outputs by row.

        For a single output, each row is its value. For several outputs, each row is an object. Outputs of
        different lengths are returned by name.
        """
        columns = {tensor.name: self._to_rows(tensor) for tensor in response.outputs}
        if len(columns) == 1:
            return next(iter(columns.values()))
        if len({*map(len, columns.values())}) > 1:
            return {name: values[0] if len(values) == 1 else values for name, values in columns.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _to_rows(self, tensor: ResponseOutput) -> list[Any]:
        """Return the values of an output by row. A row with a single value becomes that value."""
        values = self.json_values(tensor)
        if not isinstance(values, np.ndarray):
            values = np.array(TensorData(values).flat(), object)
        shape = tensor.shape[:1] if tensor.shape[1:] == [1] else tensor.shape
        rows = values.reshape(shape).tolist()
        return cast("list[Any]", rows) if shape else [rows]


def _request(admission: Admission, document: Any, parameters: Mapping[str, Any]) -> InferenceRequest:
    flat = admission.flat
    if flat is not None and flat.strict:
        names = flat.arguments.names
        arguments = document if isinstance(document, dict) else {names[0] if names else UNNAMED: document}
        if twice := arguments.keys() & parameters.keys():
            raise InvalidRequest(f'"{min(twice)}" is in an instance and in the parameters')
        return InferenceRequest.of(flat.arguments.read({**arguments, **parameters}))
    declared = admission.signature.declared_inputs
    if not _has_names(document):
        document = {declared[0].name if declared else UNNAMED: document}
    inputs = admission.read_tensors(document)
    extra = {**parameters}
    content_type = extra.pop("content_type", None)
    return InferenceRequest.of(inputs, None, Parameters.of(extra, content_type) if parameters else None)


def _has_names(document: Any) -> bool:
    """Whether an instance, or each instance of a list, is an object with inputs by name."""
    return isinstance(document, dict) or (
        isinstance(document, list) and bool(document) and isinstance(document[0], dict)
    )
