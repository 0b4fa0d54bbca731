"""Metadata, deadlines and status messages of RPCs as headers, and headers as metadata."""

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
"""Headers that describe the call or the connection. They are not metadata."""

BINARY = b"-bin"

AS_IT_IS = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
"""Characters that gRPC writes into the header unchanged. Every other byte takes three characters."""

_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_MOST_DIGITS = 8
_TO_ENCODE = re.compile("[^ -$&-~]")


class CallMetadata:
    """The metadata of an RPC, and what the server reads in it. Calls with the same head may share it."""

    __slots__ = ("pairs", "priority", "request_id", "split", "timeout")

    def __init__(self, pairs: Sequence[tuple[str, str | bytes]]) -> None:
        self.pairs = pairs
        """Names and values; values of names in `-bin` are bytes."""
        find = dict(pairs).get
        self.priority = find(PRIORITY)
        self.request_id = find(REQUEST_ID)
        self.timeout = find(TIMEOUT)
        self.split: SplitHeaders | None = None
        """Metadata for models, and those that may hold credentials; None before the first call."""


def metadata_of(headers: Iterable[Header]) -> Metadata:
    """The metadata among the headers of a call. Raises InvalidRequest for a binary value that is not base64."""
    metadata: list[tuple[str, str | bytes]] = []
    for name, value in headers:
        if name in RESERVED:
            continue
        if name.endswith(BINARY):
            key = name.decode()
            # One header may hold the values of several, joined by commas.
            metadata += [(key, _binary(key, each.strip())) for each in value.split(b",")]
            continue
        try:
            metadata.append((name.decode(), value.decode()))
        except UnicodeDecodeError:
            metadata.append((name.decode("latin-1"), value.decode("latin-1")))
    return tuple(metadata)


def _binary(name: str, value: bytes) -> bytes:
    try:
        return a2b_base64(value + b"=" * (-len(value) % 4), strict_mode=True)
    except Error:
        raise InvalidRequest(f'The value of the metadata "{name}" is not base64.') from None


def header_pairs(metadata: Iterable[tuple[str, str | bytes]]) -> list[Header]:
    """The headers that carry the metadata of a response. Those of the call or the connection are not metadata."""
    return [
        (
            name.encode(),
            value.encode() if isinstance(value, str) else b2a_base64(value, newline=False).rstrip(b"="),
        )
        for name, value in metadata
        if name.encode() not in RESERVED
    ]


def timeout_of(value: bytes) -> float:
    """The seconds of a `grpc-timeout`, such as `100m`. Raises InvalidRequest."""
    digits, unit = value[:-1], _SECONDS.get(value[-1:])
    if unit is None or not digits.isdigit() or len(digits) > _MOST_DIGITS:
        raise InvalidRequest(
            f'The grpc-timeout "{value.decode("latin-1")}" is not a number of at most {_MOST_DIGITS} digits '
            "with one of the units H, M, S, m, u and n."
        )
    return int(digits) * unit


def percent_encoded(message: str) -> bytes:
    """A status message as the value of `grpc-message`."""
    if _TO_ENCODE.search(message) is None:
        return message.encode()
    return quote(message, safe=AS_IT_IS, errors="replace").encode()
