"""Bytes in tensors."""

from inferstream.codecs.base64 import Base64Codec

__all__ = [
    "Base64Codec",
]
