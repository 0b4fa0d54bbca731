"""RFC 9113, sections 3 and 4: the preface, the format and size of frames, and blocks of fields in frames."""

from ..case import case
from ..reactions import Acknowledged, Alive, Answered, Closed, EndsConnection, EndsEither, Received
from ..request import BLOCK, body, head, request
from ..wire import (
    ACK,
    COMPRESSION_ERROR,
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_SIZE_ERROR,
    HEADERS,
    MAX_FRAME_SIZE,
    PADDED,
    PING,
    PREFACE,
    PROTOCOL_ERROR,
    SETTINGS,
    UNKNOWN,
    WHOLE,
    continuation,
    data,
    frame,
    headers,
    indexed,
    ping,
    priority,
    rst_stream,
    settings,
    window_update,
)

SMALLEST_MAXIMUM = 2**14


def larger_than_allowed(kind: int, flags: int, stream: int):
    """A frame of one octet more than the server's SETTINGS_MAX_FRAME_SIZE."""

    def make(advertised: dict[int, int]) -> bytes:
        return frame(kind, flags, stream, bytes(advertised.get(MAX_FRAME_SIZE, SMALLEST_MAXIMUM) + 1))

    return make


def within_a_block(what: str, octets: bytes):
    """A header block that another frame interrupts (6.10: only CONTINUATION may follow)."""
    interrupted = headers(BLOCK[:9], flags=END_STREAM) + octets + continuation(BLOCK[9:])
    return case("4.3", f"{what} within a header block", interrupted, EndsConnection(PROTOCOL_ERROR))


CASES = [
    case("3.4", "a preface and empty SETTINGS are acknowledged", Acknowledged()),
    case(
        "3.4",
        "a preface and SETTINGS with values are acknowledged",
        Acknowledged(),
        settings=((4, 70_000), (5, 20_000)),
    ),
    case(
        "3.4",
        "a request right behind the preface",
        PREFACE + settings() + request(),
        Answered(),
        settings=None,
    ),
    case(
        "3.4",
        "a preface in pieces",
        *(PREFACE[at : at + 1] for at in range(len(PREFACE))),
        settings()[:5],
        settings()[5:],
        request(),
        Answered(),
        settings=None,
    ),
    case("3.4", "another preface", b"INVALID CONNECTION PREFACE\r\n\r\n", Closed(), settings=None),
    case(
        "3.4",
        "a preface whose end differs",
        PREFACE[:-6] + b"XX\r\n\r\n" + settings(),
        Closed(),
        settings=None,
    ),
    case("3.4", "HTTP/1.1", b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", Closed(), settings=None),
    case("3.4", "PING before SETTINGS", PREFACE + ping(), EndsEither(PROTOCOL_ERROR), settings=None),
    case("3.4", "HEADERS before SETTINGS", PREFACE + request(), EndsEither(PROTOCOL_ERROR), settings=None),
    case(
        "3.4",
        "an acknowledgement before SETTINGS",
        PREFACE + frame(SETTINGS, ACK, 0),
        EndsEither(PROTOCOL_ERROR),
        settings=None,
    ),
    case("4.1", "a frame of unknown type on the connection", frame(UNKNOWN, 0, 0, b"nobody"), Alive()),
    case(
        "4.1",
        "a frame of unknown type on an open stream",
        head(),
        frame(UNKNOWN, 0xFF, 1, b""),
        body(),
        Answered(),
    ),
    case("4.1", "a frame of unknown type on an idle stream", frame(UNKNOWN, 0, 9, b"nobody"), Alive()),
    case(
        "4.1",
        "flags that PING does not define",
        frame(PING, 0x16, 0, b"flagged."),
        Received(frame(PING, ACK, 0, b"flagged.")),
    ),
    case(
        "4.1",
        "flags that DATA does not define",
        head(),
        data(body()[9:], flags=END_STREAM | 0xF6 & ~PADDED),
        Answered(),
    ),
    case(
        "4.1",
        "the reserved bit of PING",
        frame(PING, 0, 2**31, b"reserved"),
        Received(frame(PING, ACK, 0, b"reserved")),
    ),
    case("4.1", "the reserved bit of HEADERS and DATA", head(2**31 + 1), body(2**31 + 1), Answered()),
    case(
        "4.1",
        "frames in pieces of one octet",
        *(request()[at : at + 1] for at in range(len(request()))),
        Answered(),
    ),
    case(
        "4.1",
        "a hundred frames in one piece",
        b"".join(window_update(0, number) for number in range(1, 101)) + request(),
        Answered(),
    ),
    case(
        "4.2",
        "DATA of 16,384 octets",
        head(header_block=BLOCK),
        data(b"\0\0\0\x3f\xfb" + b"\x7a\xf8\x7f" + bytes(16_376), flags=END_STREAM),
        Answered(),
    ),
    case(
        "4.2",
        "DATA larger than the maximum",
        head(),
        larger_than_allowed(DATA, END_STREAM, 1),
        EndsEither(FRAME_SIZE_ERROR),
    ),
    case(
        "4.2",
        "HEADERS larger than the maximum",
        larger_than_allowed(HEADERS, WHOLE, 1),
        EndsConnection(FRAME_SIZE_ERROR),
    ),
    case(
        "4.2",
        "CONTINUATION larger than the maximum",
        headers(BLOCK, flags=END_STREAM),
        larger_than_allowed(0x9, END_HEADERS, 1),
        EndsConnection(FRAME_SIZE_ERROR),
    ),
    case(
        "4.2",
        "SETTINGS larger than the maximum",
        larger_than_allowed(SETTINGS, 0, 0),
        EndsConnection(FRAME_SIZE_ERROR),
    ),
    case(
        "4.2",
        "an unknown frame larger than the maximum",
        larger_than_allowed(UNKNOWN, 0, 0),
        EndsConnection(FRAME_SIZE_ERROR),
    ),
    case(
        "4.3",
        "a header block that cannot be decoded",
        headers(indexed(2_000)),
        EndsConnection(COMPRESSION_ERROR),
    ),
    case(
        "4.3",
        "a header block in three frames",
        headers(BLOCK[:9], flags=0),
        continuation(BLOCK[9:20], flags=0),
        continuation(BLOCK[20:]),
        body(),
        Answered(),
    ),
    case(
        "4.3",
        "a header block that is split within a field",
        headers(b"", flags=0),
        continuation(BLOCK[:1], flags=0),
        continuation(BLOCK[1:4], flags=0),
        continuation(BLOCK[4:], flags=0),
        continuation(b""),
        body(),
        Answered(),
    ),
    within_a_block("PRIORITY", priority(1)),
    within_a_block("HEADERS of another stream", headers(BLOCK, 3)),
    within_a_block("HEADERS of the same stream", headers(BLOCK)),
    within_a_block("DATA", data(b"")),
    within_a_block("PING", ping()),
    within_a_block("SETTINGS", settings()),
    within_a_block("WINDOW_UPDATE", window_update(0, 1)),
    within_a_block("RST_STREAM", rst_stream(1)),
    within_a_block("an unknown frame", frame(UNKNOWN, 0, 1)),
    within_a_block("CONTINUATION of another stream", continuation(BLOCK, 3)),
]
