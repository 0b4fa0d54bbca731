"""Text in tensors."""

from inferstream.codecs.string import StringCodec, StringRequestCodec


def encode_str(elem: str) -> bytes:
    """Text as UTF-8 bytes."""
    return elem.encode()


def decode_str(encoded: bytes | str | None, str_codec: str = "utf-8") -> str | None:
    """Encoded bytes or text as text; missing values stay missing. Raises TypeError or UnicodeDecodeError."""
    return encoded if encoded is None or isinstance(encoded, str) else str(encoded, str_codec)


__all__ = ["StringCodec", "StringRequestCodec", "decode_str", "encode_str"]
