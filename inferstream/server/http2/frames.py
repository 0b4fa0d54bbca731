"""Encoding of frames (RFC 9113, sections 4 and 6)."""

from struct import Struct

from .errors import ErrorCode

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA = 0x0
HEADERS = 0x1
PRIORITY = 0x2
RST_STREAM = 0x3
SETTINGS = 0x4
PUSH_PROMISE = 0x5
PING = 0x6
GOAWAY = 0x7
WINDOW_UPDATE = 0x8
CONTINUATION = 0x9

END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

HEAD_BYTES = 9
SMALLEST_MAX_FRAME = 2**14
"""The payload size in bytes that every peer must accept."""
MAX_FRAME_SIZE_LIMIT = 2**24 - 1
MAX_WINDOW_SIZE = 2**31 - 1
LAST_STREAM = 2**31 - 1
"""The largest stream id."""

_HEAD = Struct(">HBBBL")
_LONG = Struct(">L")
_GOAWAY = Struct(">LL")

read_head = _HEAD.unpack_from
"""Unpack a frame head at an offset.

The fields are the high 16 and low 8 bits of the length, the type, the flags, and the stream id with its
reserved bit.
"""


pack_head = _HEAD.pack
"""The inverse of `read_head`."""


def head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """Encode the head of a frame with `size` bytes of payload."""
    return pack_head(size >> 8, size & 0xFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return head(len(payload), kind, flags, stream) + payload


def headers(stream: int, block: bytes, end: bool, largest: int = SMALLEST_MAX_FRAME) -> bytes:
    """Encode a header block, with CONTINUATION frames for more than `largest` bytes.

    An empty block (no trailers) becomes an empty DATA frame.
    """
    ending = END_STREAM if end else 0
    if not block:
        return head(0, DATA, ending, stream)
    if len(block) <= largest:
        return frame(HEADERS, END_HEADERS | ending, stream, block)
    parts = [block[at : at + largest] for at in range(0, len(block), largest)]
    written = [frame(HEADERS, ending, stream, parts[0])]
    written += [frame(CONTINUATION, 0, stream, part) for part in parts[1:-1]]
    written.append(frame(CONTINUATION, END_HEADERS, stream, parts[-1]))
    return b"".join(written)


def window_update(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _LONG.pack(size))


def rst_stream(stream: int, code: ErrorCode) -> bytes:
    return frame(RST_STREAM, 0, stream, _LONG.pack(code))


def ping(payload: bytes, ack: bool) -> bytes:
    return frame(PING, ACK if ack else 0, 0, payload)


def goaway(last_stream: int, code: ErrorCode, reason: str) -> bytes:
    return frame(GOAWAY, 0, 0, _GOAWAY.pack(last_stream, code) + reason.encode())


def read_long(payload: bytes) -> int:
    """Decode a 4-byte payload as an unsigned 32-bit integer."""
    return int.from_bytes(payload, "big")
