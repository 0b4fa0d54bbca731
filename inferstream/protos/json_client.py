"""Writes V2 requests as JSON and parses V2 responses, for clients."""

from itertools import zip_longest
from typing import Any

from pydantic import ValidationError

from ..errors import InvalidRequest
from ..types import InferenceRequest, InferenceResponse, TensorData
from .json_requests import load
from .json_responses import to_json, to_object

HEADER_LENGTH = "inference-header-content-length"


def dump_request(request: InferenceRequest, binary: bool = False) -> tuple[bytes, list[bytes | memoryview]]:
    """Return a request as compact JSON and, if `binary` is set, the raw bytes of its tensors in order."""
    document: dict[str, Any] = {}
    if request.id is not None:
        document["id"] = request.id
    parameters = {} if request.parameters is None else dict(request.parameters.items())
    if binary:
        parameters["binary_data_output"] = True
    if parameters:
        document["parameters"] = parameters
    blobs = [tensor.data.to_raw(tensor.datatype) for tensor in request.inputs] if binary else []
    document["inputs"] = [to_object(tensor, raw) for tensor, raw in zip_longest(request.inputs, blobs)]
    if request.outputs is not None:
        document["outputs"] = [output.model_dump() for output in request.outputs]
    try:
        return to_json(document), blobs
    except TypeError as error:
        raise InvalidRequest(f"The request cannot be written as JSON: {error}.") from error


def load_response(body: bytes, header_length: str | None) -> InferenceResponse:
    """Parse a response. `header_length` is the header with the length of its JSON, if binary tensors follow.

    Raises InvalidRequest if the body is not a V2 response.
    """
    text, tail = body, memoryview(b"")
    if header_length is not None:
        if not header_length.isdigit() or int(header_length) > len(body):
            raise InvalidRequest(f"its JSON is said to have {header_length!r} bytes")
        text, tail = body[: int(header_length)], memoryview(body)[int(header_length) :]
    return build_response(load(text), tail)


def build_response(document: Any, tail: memoryview) -> InferenceResponse:
    """Build a response from a JSON document and its binary tensors in `tail`. Raises InvalidRequest."""
    outputs = document.get("outputs") if isinstance(document, dict) else None
    for output in outputs if isinstance(outputs, list) else ():
        parameters = output.get("parameters") if isinstance(output, dict) else None
        size = parameters.pop("binary_data_size", None) if isinstance(parameters, dict) else None
        if size is not None:
            if type(size) is not int or not 0 <= size <= len(tail):
                raise InvalidRequest(f"binary_data_size {size!r} is more than there is")
            output["data"], tail = TensorData.from_raw(tail[:size], str(output.get("datatype"))), tail[size:]
    try:
        return InferenceResponse.model_validate(document)
    except ValidationError as error:
        fault = error.errors()[0]
        raise InvalidRequest(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
