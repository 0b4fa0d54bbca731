"""Finds the codec of a request, tensor or payload, and applies it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import CodecError, CodecNotFound
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)
from .base import InputCodecLike, RequestCodecLike
from .decoded_cache import cache_payload, get_decoded, has_decoded
from .registry import find_input_codec, find_request_codec

Index = Mapping[str, MetadataTensor]
"""Declared tensors by name."""

NOTHING_DECLARED: Index = MappingProxyType({})


def input_codec(tensor: RequestInput | ResponseOutput | RequestOutput, index: Index) -> InputCodecLike | None:
    """Return the codec for the content type of the tensor, or of the declared tensor with the same name."""
    parameters = tensor.parameters
    content_type = None if parameters is None else parameters.content_type
    declared = None if content_type else index.get(tensor.name)
    if declared is not None and declared.parameters is not None:
        content_type = declared.parameters.content_type
    return find_input_codec(content_type=content_type) if content_type else None


def decode_request_input(
    request_input: RequestInput, index: Index = NOTHING_DECLARED, default_codec: InputCodecLike | None = None
) -> Any:
    """Decode an input once and cache the result. Returns the data of the input if it has no codec."""
    if has_decoded(request_input):
        return get_decoded(request_input)
    codec = input_codec(request_input, index) or default_codec
    if codec is None:
        return request_input.data
    return cache_payload(request_input, codec.decode_input(request_input))


def decode_inference_request(
    request: InferenceRequest,
    index: Index = NOTHING_DECLARED,
    content_type: str | None = None,
    default_codec: RequestCodecLike | None = None,
) -> Any:
    """Decode each input with its codec, then all of them with the request codec.

    Returns the request itself if it has no codec.
    """
    for tensor in request.inputs:
        if not has_decoded(tensor) and (codec := input_codec(tensor, index)) is not None:
            cache_payload(tensor, codec.decode_input(tensor))
    wanted = request.parameters.content_type if request.parameters is not None else None
    name = wanted or content_type
    request_codec = (find_request_codec(content_type=name) if name else None) or default_codec
    if request_codec is None:
        return request
    if has_decoded(request):
        return get_decoded(request)
    return cache_payload(request, request_codec.decode_request(request))


def encode_response_output(
    payload: Any,
    request_output: RequestOutput,
    index: Index = NOTHING_DECLARED,
    default_codec: InputCodecLike | None = None,
) -> ResponseOutput:
    """Encode an output with the requested codec, the declared one, or the first that can encode the payload.

    Raises CodecNotFound.
    """
    codec = input_codec(request_output, index) or find_input_codec(payload=payload, default=default_codec)
    if codec is None:
        raise CodecNotFound(name=request_output.name, payload_type=type(payload).__name__)
    try:
        return codec.encode_output(request_output.name, payload)
    except CodecError as error:
        asked = request_output.parameters is not None and request_output.parameters.content_type
        error.of_output = not asked
        raise


def encode_inference_response(
    payload: Any,
    model_name: str,
    model_version: str | None = None,
    default_codec: RequestCodecLike | None = None,
) -> InferenceResponse:
    """Encode a response with the first codec that can encode the payload. Raises CodecNotFound."""
    codec = find_request_codec(payload=payload, default=default_codec)
    if codec is None:
        raise CodecNotFound(payload_type=type(payload).__name__, is_request=True)
    return codec.encode_response(model_name, payload, model_version)


def decode_tensor(tensor: RequestInput | ResponseOutput) -> Any:
    """Decode a tensor according to its content type.

    Without one, BYTES become a list of strings, and numbers become an array.
    """
    if has_decoded(tensor):
        return get_decoded(tensor)
    codec = input_codec(tensor, NOTHING_DECLARED) or find_input_codec(
        content_type="str" if tensor.datatype == "BYTES" else "np"
    )
    assert codec is not None, "our own codecs are always registered"
    return codec.decode_input(tensor) if isinstance(tensor, RequestInput) else codec.decode_output(tensor)


def codec_of_payload(name: str, payload: Any, is_input: bool = False) -> InputCodecLike:
    """Return the codec for a single value or a list. Numbers are encoded as arrays. Raises CodecNotFound."""
    codec = find_input_codec(payload=payload)
    if codec is None and not isinstance(payload, list):
        codec = find_input_codec(payload=[payload])
    if codec is None and np.asarray(payload).dtype.kind in "biuf":
        codec = find_input_codec(content_type="np")
    if codec is None:
        raise CodecNotFound(name=name, payload_type=type(payload).__name__, is_input=is_input)
    return codec
