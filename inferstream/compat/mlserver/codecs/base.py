"""Bases of codecs, and the registry."""

from typing import Any

from inferstream.codecs.base import InputCodec, InputCodecLike, RequestCodec, RequestCodecLike
from inferstream.codecs.registry import (
    find_input_codec,
    find_request_codec,
    inputs,
    register_input_codec,
    register_request_codec,
    requests,
)
from inferstream.compat.machinery import stand_ins


def find_input_codec_by_payload(payload: Any) -> InputCodecLike | None:
    """The tensor codec that can encode a payload; None when there is none."""
    return inputs.by_payload(payload)


def find_input_codec_by_type_hint(type_hint: Any) -> InputCodecLike | None:
    """The tensor codec for values annotated so; None when there is none."""
    return inputs.by_type_hint(type_hint)


def find_request_codec_by_payload(payload: Any) -> RequestCodecLike | None:
    """The request codec that can encode a payload; None when there is none."""
    return requests.by_payload(payload)


def find_request_codec_by_type_hint(type_hint: Any) -> RequestCodecLike | None:
    """The request codec for values annotated so; None when there is none."""
    return requests.by_type_hint(type_hint)


class _CodecRegistry:
    """The registry as an object."""

    find_input_codec = staticmethod(find_input_codec)
    find_input_codec_by_payload = staticmethod(find_input_codec_by_payload)
    find_input_codec_by_type_hint = staticmethod(find_input_codec_by_type_hint)
    find_request_codec = staticmethod(find_request_codec)
    find_request_codec_by_payload = staticmethod(find_request_codec_by_payload)
    find_request_codec_by_type_hint = staticmethod(find_request_codec_by_type_hint)
    register_input_codec = staticmethod(inputs.register)
    register_request_codec = staticmethod(requests.register)


_codec_registry = _CodecRegistry()

__getattr__ = stand_ins(__name__)

__all__ = [
    "InputCodec",
    "InputCodecLike",
    "RequestCodec",
    "RequestCodecLike",
    "find_input_codec",
    "find_input_codec_by_payload",
    "find_input_codec_by_type_hint",
    "find_request_codec",
    "find_request_codec_by_payload",
    "find_request_codec_by_type_hint",
    "register_input_codec",
    "register_request_codec",
]
