"""Encoding of TorchServe requests and responses as one row of bytes each, so that they can be batched."""

import json
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import msgspec

from inferstream.errors import InvalidOutput, InvalidRequest
from inferstream.ext.values import encode_json, to_bytes
from inferstream.types import InferenceRequest, RequestInput, ResponseOutput, TensorData

POSTED = "torchserve-request"
ANSWERED = "torchserve-response"
"""The names of the tensors that contain encoded requests and responses."""

JSON = "application/json"
TEXT = "text/"


class PostedField(msgspec.Struct, array_like=True):
    """A field of a request, with its media type."""

    name: str
    media_type: str
    content: bytes

    @property
    def value(self) -> Any:
        """The value for the handler: parsed JSON, a string, or bytes for other types and invalid content."""
        try:
            if self.media_type == JSON:
                return json.loads(self.content)
            if self.media_type.startswith(TEXT):
                return self.content.decode()
        except (ValueError, RecursionError):
            pass
        return bytearray(self.content)


class Posted(msgspec.Struct, array_like=True):
    """A request to the prediction API."""

    id: str
    headers: dict[str, str]
    fields: list[PostedField]


class RowAnswer(msgspec.Struct, array_like=True):
    """The response for one row, or a part of it."""

    content: bytes
    media_type: str
    status: int = 200
    headers: dict[str, str] = {}


_posted = msgspec.msgpack.Decoder(Posted)
_answered = msgspec.msgpack.Decoder(RowAnswer)


def encode_request(posted: Posted) -> InferenceRequest:
    """Encode a prediction request as an inference request with one row."""
    row = msgspec.msgpack.encode(posted)
    return InferenceRequest.of([RequestInput.of(POSTED, [1], "BYTES", TensorData([row]))])


def decode_requests(tensor: RequestInput) -> list[Posted]:
    """Decode the requests in a tensor. Raises InvalidRequest."""
    try:
        return [_posted.decode(row) for row in to_bytes(tensor.data.flat())]
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f'input "{tensor.name}": {error}') from None


def encode_responses(answers: Sequence[RowAnswer]) -> ResponseOutput:
    """Encode responses as a tensor with one row per response."""
    rows = [msgspec.msgpack.encode(each) for each in answers]
    return ResponseOutput.of(ANSWERED, [len(rows)], "BYTES", TensorData(rows))


def decode_response(tensor: ResponseOutput) -> RowAnswer:
    """Decode the only response in a tensor."""
    return _answered.decode(bytes(tensor.data.flat()[0]))


def to_row_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> RowAnswer:
    """Convert a handler's result for one row to a response, as TorchServe does. Raises InvalidOutput."""
    said = dict(headers or {})
    content, media_type = _encode_value(value)
    return RowAnswer(content, said.pop("content-type", "") or media_type, status, said)


def _encode_value(value: Any) -> tuple[bytes, str]:
    if isinstance(value, bytes | bytearray):
        return bytes(value), "application/octet-stream"
    if isinstance(value, str):
        return value.encode(), "text/plain; charset=utf-8"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        torch.save(value, output := BytesIO())
        return output.getvalue(), "application/octet-stream"
    try:
        return json.dumps(value, indent=2, allow_nan=False).encode(), JSON
    except (TypeError, ValueError):
        pass  # NumPy numbers and arrays, bytes, NaN
    try:
        return json.dumps(json.loads(encode_json(value)), indent=2).encode(), JSON
    except TypeError as error:
        raise InvalidOutput(f"A handler returned what is no JSON: {error}.") from None
