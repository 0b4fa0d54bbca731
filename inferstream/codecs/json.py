"""Dictionaries and other JSON values, content types `json` (one tensor) and `dict` (a request of tensors)."""

import json
from typing import Any

import numpy as np
import orjson

from ..errors import CodecError
from ..types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput, TensorData
from .base import InputCodec, RequestCodec, content_type, response_of
from .lookup import decode_tensor, encode_tensor
from .registry import register_input_codec, register_request_codec


class JSONEncoderWithArray(json.JSONEncoder):
    """A JSON encoder that writes NumPy arrays and numbers, and bytes as UTF-8 text."""

    def default(self, o: Any) -> Any:
        if isinstance(o, np.ndarray):
            return o.tolist()
        if isinstance(o, np.generic):
            return o.item()
        if isinstance(o, bytes):
            return o.decode()
        return super().default(o)


def encode_to_json(value: Any, use_bytes: bool = True) -> str | bytes:
    """Compact JSON of a value that may hold arrays."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), cls=JSONEncoderWithArray)
    return text.encode() if use_bytes else text


def encode_to_json_bytes(value: Any) -> bytes:
    """Compact JSON of a value that may hold arrays, as UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), cls=JSONEncoderWithArray).encode()


def decode_from_bytelike_json_to_dict(value: bytes | str) -> Any:
    """The value of a JSON text. Raises CodecError."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise CodecError(f"not valid JSON: {error}") from None


def decode_json_input_or_output(tensor: RequestInput | ResponseOutput) -> list[Any]:
    """The value of each element of a BYTES tensor. Raises CodecError naming the tensor."""
    try:
        return [decode_from_bytelike_json_to_dict(value) for value in tensor.data.flat()]
    except (CodecError, TypeError) as error:
        raise CodecError(f'tensor "{tensor.name}": {error}') from None


@register_input_codec
class JSONCodec(InputCodec):
    """A list of dictionaries to one BYTES tensor of shape [N, 1], an object of JSON in each element."""

    ContentType = "json"
    TypeHint = list[dict[str, Any]]

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return (
            isinstance(payload, list) and bool(payload) and all(isinstance(value, dict) for value in payload)
        )

    @classmethod
    def encode_output(cls, name: str, payload: list[Any], use_bytes: bool = True, **_: Any) -> ResponseOutput:
        return ResponseOutput.trusted(cls._fields(name, payload, use_bytes))

    @classmethod
    def decode_output(cls, response_output: ResponseOutput) -> list[Any]:
        return decode_json_input_or_output(response_output)

    @classmethod
    def encode_input(cls, name: str, payload: list[Any], use_bytes: bool = True, **_: Any) -> RequestInput:
        return RequestInput.trusted(cls._fields(name, payload, use_bytes))

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> list[Any]:
        return decode_json_input_or_output(request_input)

    @classmethod
    def _fields(cls, name: str, payload: list[Any], use_bytes: bool) -> dict[str, Any]:
        return {
            "name": name,
            "shape": [len(payload), 1],
            "datatype": "BYTES",
            "parameters": content_type(cls.ContentType),
            "data": TensorData([encode_to_json(value, use_bytes) for value in payload]),
        }


@register_request_codec
class DictCodec(RequestCodec):
    """A dictionary to one tensor per key: arrays, lists of text, or whatever else a codec knows."""

    ContentType = "dict"
    TypeHint = dict[str, Any]

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return isinstance(payload, dict) and bool(payload) and all(isinstance(key, str) for key in payload)

    @classmethod
    def encode_response(
        cls, model_name: str, payload: dict[str, Any], model_version: str | None = None, **options: Any
    ) -> InferenceResponse:
        outputs = [encode_tensor(name, value).encode_output(name, value) for name, value in payload.items()]
        return response_of(model_name, model_version, outputs, cls.ContentType)

    @classmethod
    def decode_response(cls, response: InferenceResponse) -> dict[str, Any]:
        return {tensor.name: decode_tensor(tensor) for tensor in response.outputs}

    @classmethod
    def encode_request(cls, payload: dict[str, Any], **options: Any) -> InferenceRequest:
        inputs = [encode_tensor(name, value).encode_input(name, value) for name, value in payload.items()]
        return InferenceRequest.trusted({"parameters": content_type(cls.ContentType), "inputs": inputs})

    @classmethod
    def decode_request(cls, request: InferenceRequest) -> dict[str, Any]:
        return {tensor.name: decode_tensor(tensor) for tensor in request.inputs}
