"""Codecs convert between typed payloads and tensors."""

from typing import TYPE_CHECKING, Any

from ..errors import CodecError
from .base import InputCodec, InputCodecLike, RequestCodec, RequestCodecLike
from .base64 import Base64Codec
from .datetime import DatetimeCodec
from .decoded_cache import DecodedParameterName, get_decoded, get_decoded_or_raw, has_decoded
from .lookup import (
    decode_inference_request,
    decode_request_input,
    encode_inference_response,
    encode_response_output,
)
from .numpy import NumpyCodec, NumpyRequestCodec
from .registry import register_input_codec, register_request_codec
from .signature import decode_args
from .string import StringCodec, StringRequestCodec

if TYPE_CHECKING:
    from .pandas import PandasCodec

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
        # pandas takes longer to import than the whole server.
        from .pandas import PandasCodec

        return PandasCodec
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
