"""Typed signatures."""

from inferstream.codecs.signature import SignatureCodec, decode_args

__all__ = [
    "SignatureCodec",
    "decode_args",
]
