"""Texts in ROT13, content type `rot13`."""

import codecs
from typing import Any

from inferstream.codecs import InputCodec, StringCodec, register_input_codec
from inferstream.types import RequestInput, ResponseOutput


@register_input_codec
class Rot13Codec(InputCodec):
    ContentType = "rot13"

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return False  # only where a client or a model asks for it

    @classmethod
    def decode_input(cls, request_input: RequestInput) -> list[str]:
        return [codecs.decode(text, "rot13") for text in StringCodec.decode_input(request_input)]

    @classmethod
    def encode_output(cls, name: str, payload: list[str], **kwargs: Any) -> ResponseOutput:
        return StringCodec.encode_output(name, [codecs.encode(text, "rot13") for text in payload])
