"""Codecs and what finds them."""

from typing import Any

from inferstream.codecs import (
    Base64Codec,
    CodecError,
    DatetimeCodec,
    DecodedParameterName,
    InputCodec,
    InputCodecLike,
    NumpyCodec,
    NumpyRequestCodec,
    RequestCodec,
    RequestCodecLike,
    StringCodec,
    StringRequestCodec,
    decode_args,
    get_decoded,
    get_decoded_or_raw,
    has_decoded,
    register_input_codec,
    register_request_codec,
)

from .utils import (
    decode_inference_request,
    decode_request_input,
    encode_inference_response,
    encode_response_output,
)

__all__ = [
    "Base64Codec",
    "CodecError",
    "DatetimeCodec",
    "DecodedParameterName",
    "InputCodec",
    "InputCodecLike",
    "NumpyCodec",
    "NumpyRequestCodec",
    "PandasCodec",
    "RequestCodec",
    "RequestCodecLike",
    "StringCodec",
    "StringRequestCodec",
    "decode_args",
    "decode_inference_request",
    "decode_request_input",
    "encode_inference_response",
    "encode_response_output",
    "get_decoded",
    "get_decoded_or_raw",
    "has_decoded",
    "register_input_codec",
    "register_request_codec",
]


def __getattr__(name: str) -> Any:
    if name == "PandasCodec":
        from inferstream.codecs.pandas import PandasCodec

        return PandasCodec
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
