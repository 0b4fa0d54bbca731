"""What codecs share."""

from inferstream.codecs.base import INPUT_PREFIX, OUTPUT_PREFIX, SingleInputRequestCodec
from inferstream.codecs.kept import get_decoded, get_decoded_or_raw, has_decoded
from inferstream.codecs.lookup import (
    decode_inference_request,
    decode_request_input,
    encode_inference_response,
    encode_response_output,
)
from inferstream.codecs.numpy import batch_shape
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput

DefaultInputPrefix = INPUT_PREFIX
DefaultOutputPrefix = OUTPUT_PREFIX
InputOrOutput = RequestInput | ResponseOutput
Parametrised = InputOrOutput | InferenceRequest | InferenceResponse
inject_batch_dimension = batch_shape

__all__ = [
    "DefaultInputPrefix",
    "DefaultOutputPrefix",
    "InputOrOutput",
    "Parametrised",
    "SingleInputRequestCodec",
    "decode_inference_request",
    "decode_request_input",
    "encode_inference_response",
    "encode_response_output",
    "get_decoded",
    "get_decoded_or_raw",
    "has_decoded",
    "inject_batch_dimension",
]
