"""The text format of gRPC-Web: base64, in one or more padded chunks."""

from binascii import Error, a2b_base64, b2a_base64

from ....errors import InvalidRequest

INVALID = "The body of application/grpc-web-text is not base64."


class TextDecoder:
    """Decodes a body incrementally. Padding may occur anywhere in the body, at the end of a chunk."""

    def __init__(self) -> None:
        self._rest = b""

    def decode(self, piece: bytes) -> bytes:
        """Add a piece of the body, and return the bytes that are now complete. Raises InvalidRequest."""
        text = self._rest + piece
        whole = len(text) & ~3
        self._rest = text[whole:]
        parts: list[bytes] = []
        start = 0
        while start < whole:
            padding = text.find(b"=", start, whole)
            end = whole if padding < 0 else padding // 4 * 4 + 4
            parts.append(_decode_base64(text[start:end]))
            start = end
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def end(self) -> None:
        """Raise InvalidRequest if the body ends within a group of four characters."""
        if self._rest:
            raise InvalidRequest(INVALID)


def _decode_base64(text: bytes) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except Error:
        raise InvalidRequest(INVALID) from None


def encode_chunk(data: bytes) -> bytes:
    """Encode data as one padded chunk."""
    return b2a_base64(data, newline=False)
