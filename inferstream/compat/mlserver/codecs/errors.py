"""Errors of codecs."""

from inferstream.errors import CodecError, CodecNotFound, InputsNotFound, OutputNotFound

__all__ = [
    "CodecError",
    "CodecNotFound",
    "InputsNotFound",
    "OutputNotFound",
]
