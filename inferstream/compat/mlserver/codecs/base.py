"""Bases of codecs, and the registry."""

from inferstream.codecs.base import InputCodec, InputCodecLike, RequestCodec, RequestCodecLike
from inferstream.codecs.registry import (
    find_input_codec,
    find_request_codec,
    register_input_codec,
    register_request_codec,
)

__all__ = [
    "InputCodec",
    "InputCodecLike",
    "RequestCodec",
    "RequestCodecLike",
    "find_input_codec",
    "find_request_codec",
    "register_input_codec",
    "register_request_codec",
]
