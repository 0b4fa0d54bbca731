"""What codecs share, with MLServer's parameters where ours differ."""

from collections.abc import Mapping
from typing import Any

from inferstream.codecs import lookup
from inferstream.codecs.base import (
    INPUT_PREFIX,
    OUTPUT_PREFIX,
    InputCodecLike,
    RequestCodecLike,
    SingleInputRequestCodec,
)
from inferstream.codecs.decoded import (
    DecodedParameterName,
    get_decoded,
    get_decoded_or_raw,
    has_decoded,
    keep,
)
from inferstream.codecs.numpy import batch_shape
from inferstream.errors import CodecNotFound
from inferstream.settings import ModelSettings
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    MetadataTensor,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)

DefaultInputPrefix = INPUT_PREFIX
DefaultOutputPrefix = OUTPUT_PREFIX
InputOrOutput = RequestInput | ResponseOutput
Codec = InputCodecLike | RequestCodecLike
Parametrised = InputOrOutput | RequestOutput | InferenceRequest | InferenceResponse
Tagged = MetadataTensor | ModelSettings
Index = Mapping[str, MetadataTensor]
inject_batch_dimension = batch_shape


def decode_request_input(
    request_input: RequestInput, metadata_inputs: Index = lookup.NOTHING_DECLARED
) -> Any:
    """The payload of an input, decoded once and kept; None when no codec answers."""
    if not has_decoded(request_input) and lookup.input_codec(request_input, metadata_inputs) is None:
        return None
    return lookup.decode_request_input(request_input, metadata_inputs)


def decode_inference_request(
    inference_request: InferenceRequest,
    model_settings: ModelSettings | None = None,
    metadata_inputs: Index = lookup.NOTHING_DECLARED,
) -> Any:
    """The payload of a request: each input by its codec, then all by the request's; the request when none answers."""
    parameters = model_settings.parameters if model_settings is not None else None
    content_type = parameters.content_type if parameters is not None else None
    return lookup.decode_inference_request(inference_request, metadata_inputs, content_type)


def encode_response_output(
    payload: Any, request_output: RequestOutput, metadata_outputs: Index = lookup.NOTHING_DECLARED
) -> ResponseOutput | None:
    """One output, by the codec asked for, the declared one or one that knows the payload; None without any."""
    try:
        return lookup.encode_response_output(payload, request_output, metadata_outputs)
    except CodecNotFound:
        return None


def encode_inference_response(payload: Any, model_settings: ModelSettings) -> InferenceResponse | None:
    """A whole response by the codec that knows the payload; None when there is none."""
    try:
        return lookup.encode_inference_response(payload, model_settings.name, model_settings.version)
    except CodecNotFound:
        return None


def _save_decoded(parametrised_obj: Any, decoded_payload: Any) -> None:
    keep(parametrised_obj, decoded_payload)


__all__ = [
    "Codec",
    "DecodedParameterName",
    "DefaultInputPrefix",
    "DefaultOutputPrefix",
    "InputOrOutput",
    "Parametrised",
    "SingleInputRequestCodec",
    "Tagged",
    "decode_inference_request",
    "decode_request_input",
    "encode_inference_response",
    "encode_response_output",
    "get_decoded",
    "get_decoded_or_raw",
    "has_decoded",
    "inject_batch_dimension",
]
