"""Frames and header blocks as bytes. Nothing is checked, so that cases can send what no client would."""

import struct
from collections.abc import Iterable

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
UNKNOWN = 0x1F

ACK = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20
WHOLE = END_HEADERS | END_STREAM

NO_ERROR = 0x0
PROTOCOL_ERROR = 0x1
INTERNAL_ERROR = 0x2
FLOW_CONTROL_ERROR = 0x3
STREAM_CLOSED = 0x5
FRAME_SIZE_ERROR = 0x6
REFUSED_STREAM = 0x7
CANCEL = 0x8
COMPRESSION_ERROR = 0x9
ENHANCE_YOUR_CALM = 0xB

HEADER_TABLE_SIZE = 0x1
ENABLE_PUSH = 0x2
MAX_CONCURRENT_STREAMS = 0x3
INITIAL_WINDOW_SIZE = 0x4
MAX_FRAME_SIZE = 0x5
MAX_HEADER_LIST_SIZE = 0x6

LARGEST_WINDOW = 2**31 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame; a `stream` above 2**31 sets the reserved bit."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(*pairs: tuple[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs))


def headers(block: bytes, stream: int = 1, flags: int = WHOLE) -> bytes:
    return frame(HEADERS, flags, stream, block)


def data(payload: bytes, stream: int = 1, flags: int = END_STREAM) -> bytes:
    return frame(DATA, flags, stream, payload)


def continuation(block: bytes, stream: int = 1, flags: int = END_HEADERS) -> bytes:
    return frame(CONTINUATION, flags, stream, block)


def priority(stream: int, dependency: int = 0, weight: int = 15, exclusive: bool = False) -> bytes:
    return frame(PRIORITY, 0, stream, priority_fields(dependency, weight, exclusive))


def priority_fields(dependency: int = 0, weight: int = 15, exclusive: bool = False) -> bytes:
    return struct.pack(">IB", dependency | exclusive << 31, weight)


def rst_stream(stream: int, code: int = CANCEL) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def ping(payload: bytes = b"8 octets", flags: int = 0) -> bytes:
    return frame(PING, flags, 0, payload)


def goaway(last: int = 0, code: int = NO_ERROR, debug: bytes = b"", stream: int = 0) -> bytes:
    return frame(GOAWAY, 0, stream, struct.pack(">II", last, code) + debug)


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


# Header compression (RFC 7541).


def integer(value: int, prefix: int, pattern: int) -> bytes:
    """An integer behind the bits of `pattern` (section 5.1)."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([pattern | value])
    rest = bytearray([pattern | most])
    value -= most
    while value >= 128:
        rest.append(value & 127 | 128)
        value >>= 7
    return bytes([*rest, value])


def string(value: bytes, huffman: bool = False) -> bytes:
    """A string literal; with `huffman` the bytes must be coded already."""
    return integer(len(value), 7, 0x80 if huffman else 0) + value


def indexed(index: int) -> bytes:
    return integer(index, 7, 0x80)


def literal(name: bytes | int, value: bytes, pattern: int = 0, prefix: int = 4) -> bytes:
    """A literal that changes no table. An int as the name is an index."""
    if isinstance(name, int):
        return integer(name, prefix, pattern) + string(value)
    return bytes([pattern]) + string(name) + string(value)


def remembered(name: bytes | int, value: bytes) -> bytes:
    """A literal that enters the dynamic table."""
    return literal(name, value, 0x40, 6)


def never_indexed(name: bytes | int, value: bytes) -> bytes:
    return literal(name, value, 0x10, 4)


def table_size(size: int) -> bytes:
    return integer(size, 5, 0x20)


def block(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join(literal(name, value) for name, value in fields)
