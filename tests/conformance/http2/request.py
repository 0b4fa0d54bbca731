"""The request that the cases build on: a call of ServerLive, whose response has DATA of seven octets."""

from .wire import END_HEADERS, END_STREAM, block, data, headers

PATH = b"/inference.GRPCInferenceService/ServerLive"
MESSAGE = b"\0\0\0\0\0"
"""An empty message of gRPC, which is ServerLiveRequest."""

RESPONSE_SIZE = 7
"""Octets of DATA in the response: a prefix of five, and `live: true`."""

PSEUDO = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", PATH),
    (b":authority", b"localhost"),
)
REGULAR = ((b"content-type", b"application/grpc"), (b"te", b"trailers"))
FIELDS = (*PSEUDO, *REGULAR)
BLOCK = block(FIELDS)


def with_fields(*more: tuple[bytes, bytes]) -> bytes:
    """The header block of the request with further fields at its end."""
    return BLOCK + block(more)


def without(name: bytes) -> bytes:
    """The header block of the request without a field."""
    return block(field for field in FIELDS if field[0] != name)


def replaced(name: bytes, value: bytes) -> bytes:
    """The header block of the request with another value of a field."""
    return block((found, value if found == name else own) for found, own in FIELDS)


def head(stream: int = 1, header_block: bytes = BLOCK) -> bytes:
    """HEADERS of a request whose message follows."""
    return headers(header_block, stream, END_HEADERS)


def body(stream: int = 1) -> bytes:
    return data(MESSAGE, stream, END_STREAM)


def request(stream: int = 1, header_block: bytes = BLOCK) -> bytes:
    """A whole request."""
    return head(stream, header_block) + body(stream)
