"""The MLflow scoring protocol at `/invocations`, for models that parse and serialize the bodies themselves."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from inferstream import MLModel
from inferstream.errors import InvalidRequest, ModelError
from inferstream.ext.calls import Admission
from inferstream.ext.http import JsonBody, RawHeaders, UnaryRequest
from inferstream.ext.values import to_bytes
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
    TensorData,
)

from .instance_fields import MAY_BE_JSON

SCORE = "mlflow_scoring"
"""The request parameter with the media type of a scoring body.

Bodies of the same type can form a batch. Like other parameters, it is passed to worker processes.
"""

BODY, RESPONSE = "body", "response"
"""The names of the tensors with the bodies, and with the status, media type and body of each response."""

JSON = "application/json"

Score = Callable[[bytes, str], tuple[int, str, str]]


class ScoringError(ModelError):
    """A response with an error status."""

    def __init__(self, status: int, headers: RawHeaders, body: bytes) -> None:
        super().__init__("the request does not fit the model", status)
        self.answer = status, headers, body


class ScoringRequest(UnaryRequest):
    """A body for the model to parse, and the body that it returns."""

    __slots__ = ()

    def __init__(self, admission: Admission, media_type: bytes, body: bytes) -> None:
        kind = media_type.partition(b";")[0].strip().lower()
        sent = JSON if kind in MAY_BE_JSON or kind.endswith(b"+json") else media_type.decode("latin-1")
        tensor = RequestInput.of(BODY, [1], "BYTES", TensorData([body]))
        super().__init__(admission, [InferenceRequest.of([tensor], None, Parameters.of({SCORE: sent}))])

    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        status, media_type, body = to_bytes(responses[0].outputs[0].data.flat())
        headers = [(b"content-type", media_type)]
        if status != b"200":
            raise ScoringError(int(status), headers, body)
        return headers, body


def takes_scoring(admission: Admission, body: bytes) -> bool:
    """Whether the model parses this body itself. Bodies with V2 inputs are V2 requests."""
    if "scoring" not in admission.capabilities.adapted:
        return False
    if b'"datatype"' not in body:
        return True
    try:
        return not JsonBody(body).is_v2(admission.signature.declared_inputs)
    except InvalidRequest:
        return True


def let_score(model: MLModel) -> bool:
    """Wrap `predict` so that scoring requests call `score_body`.

    Returns False if the model has no such method, or if only its declared inputs are valid.
    """
    score = getattr(model, "score_body", None)
    settings = model.settings
    strict = settings.input_validation == "strict" or settings.configuration
    if score is None or strict or inspect.iscoroutinefunction(model.predict):
        return False
    predict: Callable[..., Any] = model.predict

    @wraps(predict)
    def predict_or_score(payload: InferenceRequest) -> Any:
        media_type = None if payload.parameters is None else payload.parameters.get(SCORE)
        return predict(payload) if media_type is None else _score(model, score, payload, media_type)

    # Set on the instance, so that other instances of the class are unaffected.
    model.predict = predict_or_score  # type: ignore[method-assign]
    return True


def _score(model: MLModel, score: Score, payload: InferenceRequest, media_type: object) -> InferenceResponse:
    """Score each body of a request, or of a batch of requests."""
    tensor = payload.inputs[0]
    if tensor.datatype != "BYTES" or not isinstance(media_type, str):
        raise InvalidRequest(f'parameter "{SCORE}" is a media type, and the input has datatype BYTES')
    rows = [score(body, media_type) for body in to_bytes(tensor.data.flat())]
    values = [str(value).encode() for row in rows for value in row]
    output = ResponseOutput.of(RESPONSE, [len(rows), 3], "BYTES", TensorData(values))
    return InferenceResponse.of(model.name, [output], model.version)
