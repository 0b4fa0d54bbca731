"""JSON in tensors."""

from inferstream.codecs.json import (
    JSONEncoderWithArray,
    decode_from_bytelike_json_to_dict,
    decode_json_input_or_output,
    encode_to_json,
    encode_to_json_bytes,
)

__all__ = [
    "JSONEncoderWithArray",
    "decode_from_bytelike_json_to_dict",
    "decode_json_input_or_output",
    "encode_to_json",
    "encode_to_json_bytes",
]
