"""Requests and answers of TorchServe's routes, each as one row of bytes: so that they fit into batches as they are."""

import json
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import msgspec

from inferstream.ext.values import encode_json, to_bytes

from ...errors import InvalidOutput, InvalidRequest
from ...types import InferenceRequest, RequestInput, ResponseOutput, TensorData

POSTED = "torchserve-request"
ANSWERED = "torchserve-response"
"""The tensors that hold them."""

JSON = "application/json"
TEXT = "text/"


class PostedField(msgspec.Struct, array_like=True):
    """One part of a request, and its media type."""

    name: str
    media_type: str
    content: bytes

    @property
    def value(self) -> Any:
        """What a handler gets: a value of JSON, a text, or bytes as they are, as what cannot be read is too."""
        try:
            if self.media_type == JSON:
                return json.loads(self.content)
            if self.media_type.startswith(TEXT):
                return self.content.decode()
        except (ValueError, RecursionError):
            pass
        return bytearray(self.content)


class Posted(msgspec.Struct, array_like=True):
    """A request."""

    id: str
    headers: dict[str, str]
    fields: list[PostedField]


class RowAnswer(msgspec.Struct, array_like=True):
    """An answer, or a piece of one."""

    content: bytes
    media_type: str
    status: int = 200
    headers: dict[str, str] = {}


_posted = msgspec.msgpack.Decoder(Posted)
_answered = msgspec.msgpack.Decoder(RowAnswer)


def request_of(posted: Posted) -> InferenceRequest:
    """The request to the model."""
    row = msgspec.msgpack.encode(posted)
    return InferenceRequest.of([RequestInput.of(POSTED, [1], "BYTES", TensorData([row]))])


def posted_rows(tensor: RequestInput) -> list[Posted]:
    """The requests in a tensor. Raises InvalidRequest for bytes that are none."""
    try:
        return [_posted.decode(row) for row in to_bytes(tensor.data.flat())]
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f'input "{tensor.name}": {error}') from None


def answered_tensor(answers: Sequence[RowAnswer]) -> ResponseOutput:
    """The tensor of answers, one for each row."""
    rows = [msgspec.msgpack.encode(each) for each in answers]
    return ResponseOutput.of(ANSWERED, [len(rows)], "BYTES", TensorData(rows))


def answer_in(tensor: ResponseOutput) -> RowAnswer:
    """The only answer in a tensor."""
    return _answered.decode(bytes(tensor.data.flat()[0]))


def answered(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> RowAnswer:
    """What a handler returned for one row, as TorchServe writes it. Raises InvalidOutput."""
    said = dict(headers or {})
    content, media_type = _written(value)
    return RowAnswer(content, said.pop("content-type", "") or media_type, status, said)


def _written(value: Any) -> tuple[bytes, str]:
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
