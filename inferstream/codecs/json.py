"""Dictionaries and other JSON values, content types `json` (one tensor) and `dict` (one tensor per key)."""

from typing import Any

import orjson

from ..types import InferenceRequest, InferenceResponse
from ..types.json_encoding import encode
from .base import RequestCodec, build_response, content_type
from .lists import Element, ListCodec, is_list_of
from .lookup import codec_of_payload, decode_tensor
from .registry import register_input_codec, register_request_codec


@register_input_codec
class JSONCodec(ListCodec[Any]):
    """Converts between a list of dictionaries and one BYTES tensor of shape [N, 1] with JSON objects."""

    ContentType = "json"
    TypeHint = list[dict[str, Any]]
    OtherTypeHints = (list[dict],)  # type: ignore[type-arg]  # as model authors write it

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return is_list_of(payload, dict) and len(payload) > 0

    @classmethod
    def to_elements(cls, values: list[Any]) -> list[Any]:
        return [encode(value, text_bytes=True) for value in values]

    @classmethod
    def from_elements(cls, elements: list[Element]) -> list[Any]:
        try:
            return [None if element is None else orjson.loads(element) for element in elements]
        except orjson.JSONDecodeError as error:
            raise ValueError(f"not valid JSON ({error})") from None


@register_request_codec
class DictCodec(RequestCodec):
    """Converts between a dictionary and one tensor per key. Each value is an array or has its own codec."""

    ContentType = "dict"
    TypeHint = dict[str, Any]
    OtherTypeHints = (dict,)

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return isinstance(payload, dict) and bool(payload) and all(isinstance(key, str) for key in payload)

    @classmethod
    def encode_response(
        cls, model_name: str, payload: dict[str, Any], model_version: str | None = None, **options: Any
    ) -> InferenceResponse:
        outputs = [
            codec_of_payload(name, value).encode_output(name, value, **options)
            for name, value in payload.items()
        ]
        return build_response(model_name, model_version, outputs, cls.ContentType)

    @classmethod
    def decode_response(cls, response: InferenceResponse) -> dict[str, Any]:
        return {tensor.name: decode_tensor(tensor) for tensor in response.outputs}

    @classmethod
    def encode_request(cls, payload: dict[str, Any], **options: Any) -> InferenceRequest:
        inputs = [
            codec_of_payload(name, value, is_input=True).encode_input(name, value, **options)
            for name, value in payload.items()
        ]
        return InferenceRequest.of(inputs, None, content_type(cls.ContentType))

    @classmethod
    def decode_request(cls, request: InferenceRequest) -> dict[str, Any]:
        return {tensor.name: decode_tensor(tensor) for tensor in request.inputs}
