"""Conversion of metadata, deadlines and status messages to and from HTTP/2 headers."""

import re
from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from ...dataplane.caller import SplitHeaders
from ...errors import InvalidRequest

Header = tuple[bytes, bytes]
"""The name in lower case, and the value."""

Metadata = tuple[tuple[str, str | bytes], ...]
"""Names and values. The value of a name with the suffix "-bin" is bytes."""

REQUEST_ID = "x-request-id"
PRIORITY = "x-request-priority"
TIMEOUT = "x-request-timeout"

RESERVED = frozenset(
    b":method :path :scheme :authority :protocol"
    b" content-type te grpc-timeout grpc-encoding grpc-accept-encoding grpc-message-type grpc-status grpc-message"
    b" connection content-encoding content-length keep-alive proxy-connection trailer transfer-encoding upgrade".split()
)
"""Headers that describe the call or the connection, and are not metadata."""

BINARY = b"-bin"

AS_IT_IS = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
"""Characters that are not percent-encoded in `grpc-message`. Every other byte takes three characters."""

_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MAX_DIGITS = 8
_TO_ENCODE = re.compile("[^ -$&-~]")


class CallMetadata:
    """The metadata of an RPC, and the values that the server reads. Calls with the same head may share it."""

    __slots__ = ("find", "pairs", "priority", "request_id", "split", "timeout")

    def __init__(self, pairs: Sequence[tuple[str, str | bytes]]) -> None:
        self.pairs = pairs
        """Names and values. The value of a name with the suffix "-bin" is bytes."""
        self.find = find = dict(pairs).get
        """Returns a value by its name, or None."""
        self.priority = find(PRIORITY)
        self.request_id = find(REQUEST_ID)
        self.timeout = find(TIMEOUT)
        self.split: SplitHeaders | None = None
        """Metadata for models, and metadata with credentials. None until the first call."""


def extract_metadata(headers: Iterable[Header]) -> Metadata:
    """Extract the metadata from the headers of a call.

    Raises InvalidRequest if a binary value is not base64.
    """
    metadata: list[tuple[str, str | bytes]] = []
    for name, value in headers:
        if name in RESERVED:
            continue
        if name.endswith(BINARY):
            key = name.decode()
            # Repeated binary headers may be joined by commas.
            metadata += [(key, _decode_binary(key, each.strip())) for each in value.split(b",")]
            continue
        try:
            metadata.append((name.decode(), value.decode()))
        except UnicodeDecodeError:
            metadata.append((name.decode("latin-1"), value.decode("latin-1")))
    return tuple(metadata)


def _decode_binary(name: str, value: bytes) -> bytes:
    try:
        return a2b_base64(value + b"=" * (-len(value) % 4), strict_mode=True)
    except Error:
        raise InvalidRequest(f'The value of the metadata "{name}" is not base64.') from None


def encode_metadata(metadata: Iterable[tuple[str, str | bytes]]) -> list[Header]:
    """Encode response metadata as headers. Reserved headers are dropped."""
    return [
        (
            name.encode(),
            value.encode() if isinstance(value, str) else b2a_base64(value, newline=False).rstrip(b"="),
        )
        for name, value in metadata
        if name.encode() not in RESERVED
    ]


def parse_timeout(value: bytes) -> float:
    """Parse a `grpc-timeout`, such as `100m`, as seconds. Raises InvalidRequest."""
    digits, unit = value[:-1], _SECONDS.get(value[-1:])
    if unit is None or not digits.isdigit() or len(digits) > _MAX_DIGITS:
        raise InvalidRequest(
            f'The grpc-timeout "{value.decode("latin-1")}" is not a number of at most {_MAX_DIGITS} digits '
            "with one of the units H, M, S, m, u and n."
        )
    return int(digits) * unit


def percent_encode(message: str) -> bytes:
    """Percent-encode a status message for `grpc-message`."""
    if _TO_ENCODE.search(message) is None:
        return message.encode()
    return quote(message, safe=AS_IT_IS, errors="replace").encode()
