"""Text in tensors."""

from inferstream.codecs.string import StringCodec, StringRequestCodec, decode_str, encode_str

__all__ = [
    "StringCodec",
    "StringRequestCodec",
    "decode_str",
    "encode_str",
]
