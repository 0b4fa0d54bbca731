"""The text form of gRPC-Web: base64, in one or more padded chunks."""

from binascii import Error, a2b_base64, b2a_base64

from ....errors import InvalidRequest

INVALID = "The body of application/grpc-web-text is not base64."


class TextDecoder:
    """Decodes a body as it arrives. A chunk may end in padding anywhere in the body."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> bytes:
        """The bytes that are complete with this piece. Raises InvalidRequest."""
        text = self._rest + piece
        whole = len(text) & ~3
        self._rest = text[whole:]
        parts: list[bytes] = []
        start = 0
        while start < whole:
            padding = text.find(b"=", start, whole)
            end = whole if padding < 0 else padding // 4 * 4 + 4
            parts.append(_decoded(text[start:end]))
            start = end
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def end(self) -> None:
        """Raise InvalidRequest if the body ends within four characters that belong together."""
        if self._rest:
            raise InvalidRequest(INVALID)


def _decoded(text: bytes) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except Error:
        raise InvalidRequest(INVALID) from None


def encoded(data: bytes) -> bytes:
    """One padded chunk."""
    return b2a_base64(data, newline=False)
