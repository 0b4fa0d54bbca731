"""RFC 9113, section 8: requests, their fields, trailers, and what makes them malformed."""

from ..case import Case, case
from ..reactions import Answered, EndsConnection, EndsEither, Malformed
from ..request import (
    BLOCK,
    FIELDS,
    MESSAGE,
    PSEUDO,
    REGULAR,
    body,
    head,
    replaced,
    request,
    with_fields,
    without,
)
from ..wire import (
    END_HEADERS,
    END_STREAM,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    STREAM_CLOSED,
    block,
    data,
    frame,
    headers,
)


def malformed(section: str, what: str, header_block: bytes) -> Case:
    """A header block that makes the request malformed; another request on the connection is served."""
    return case(section, what, head(1, header_block), Malformed(), request(3), Answered(3))


def added(section: str, what: str, name: bytes, value: bytes = b"x") -> Case:
    return malformed(section, what, with_fields((name, value)))


def well_formed(section: str, what: str, header_block: bytes) -> Case:
    return case(section, what, request(1, header_block), Answered())


TRAILERS = block([(b"x-last", b"word")])

CASES = [
    well_formed("8.1", "a request with DATA", BLOCK),
    case("8.1", "trailers", head(), data(MESSAGE, flags=0), headers(TRAILERS), Answered()),
    case(
        "8.1",
        "HEADERS in the middle of a request",
        head(),
        data(MESSAGE, flags=0),
        headers(TRAILERS, flags=END_HEADERS),
        Malformed(),
        request(3),
        Answered(3),
    ),
    case("8.1", "HEADERS again at once", head(), headers(BLOCK, flags=END_HEADERS), Malformed()),
    case(
        "8.1",
        "a pseudo-header in trailers",
        head(),
        data(MESSAGE, flags=0),
        headers(block([(b":method", b"POST")])),
        Malformed(),
    ),
    case(
        "8.1",
        "a name in upper case in trailers",
        head(),
        data(MESSAGE, flags=0),
        headers(block([(b"X-Last", b"word")])),
        Malformed(),
    ),
    case(
        "8.1",
        "DATA after trailers",
        head(),
        data(MESSAGE, flags=0),
        headers(TRAILERS) + data(b""),
        EndsEither(STREAM_CLOSED),
        settings=((4, 0),),
    ),
    case(
        "8.1.1",
        "a content-length that is right",
        head(1, with_fields((b"content-length", b"5"))),
        body(),
        Answered(),
    ),
    case(
        "8.1.1",
        "a content-length above the DATA",
        head(1, with_fields((b"content-length", b"6"))),
        body(),
        Malformed(),
    ),
    case(
        "8.1.1",
        "a content-length below the DATA",
        head(1, with_fields((b"content-length", b"4"))),
        body(),
        Malformed(),
    ),
    case(
        "8.1.1",
        "a content-length above the sum of several DATA",
        head(1, with_fields((b"content-length", b"6"))),
        data(MESSAGE[:2], flags=0),
        data(MESSAGE[2:]),
        Malformed(),
    ),
    case(
        "8.1.1",
        "a content-length below the sum of several DATA",
        head(1, with_fields((b"content-length", b"3"))),
        data(MESSAGE[:2], flags=0),
        data(MESSAGE[2:]),
        Malformed(),
    ),
    case(
        "8.1.1",
        "a content-length without DATA",
        headers(with_fields((b"content-length", b"5")), flags=END_HEADERS | END_STREAM),
        Malformed(),
    ),
    case(
        "8.1.1",
        "a content-length that is no number",
        head(1, with_fields((b"content-length", b"five"))),
        body(),
        Malformed(),
    ),
    case(
        "8.1.1",
        "a content-length with a sign",
        head(1, with_fields((b"content-length", b"+5"))),
        body(),
        Malformed(),
    ),
    case(
        "8.1.1",
        "two values of content-length",
        head(1, with_fields((b"content-length", b"5"), (b"content-length", b"6"))),
        body(),
        Malformed(),
    ),
    case(
        "8.1.1",
        "a content-length above the DATA before trailers",
        head(1, with_fields((b"content-length", b"6"))),
        data(MESSAGE, flags=0),
        headers(TRAILERS),
        Malformed(),
    ),
    added("8.2", "a name in upper case", b"X-UPPER"),
    added("8.2", "a name with one capital", b"x-uppeR"),
    added("8.2.1", "an empty name", b""),
    added("8.2.1", "a name with a space", b"x y"),
    added("8.2.1", "a name with a NUL", b"x\0y"),
    added("8.2.1", "a name with a line feed", b"x\ny"),
    added("8.2.1", "a name with DEL", b"x\x7fy"),
    added("8.2.1", "a name outside ASCII", b"x\xe9y"),
    added("8.2.1", "a name with a colon in it", b"x:y"),
    added("8.2.1", "a value with a NUL", b"x", b"a\0b"),
    added("8.2.1", "a value with a line feed", b"x", b"a\nb"),
    added("8.2.1", "a value with a carriage return", b"x", b"a\rb"),
    added("8.2.1", "a value that begins with a space", b"x", b" a"),
    added("8.2.1", "a value that ends with a space", b"x", b"a "),
    added("8.2.1", "a value that begins with a tab", b"x", b"\ta"),
    added("8.2.1", "a value that ends with a tab", b"x", b"a\t"),
    well_formed("8.2.1", "an empty value", with_fields((b"x", b""))),
    well_formed(
        "8.2.1", "names of every kind of character", with_fields((b"x-!#$%&'*+.^_`|~09az", b"a b\tc"))
    ),
    added("8.2.2", "connection", b"connection", b"keep-alive"),
    added("8.2.2", "proxy-connection", b"proxy-connection", b"keep-alive"),
    added("8.2.2", "keep-alive", b"keep-alive", b"5"),
    added("8.2.2", "transfer-encoding", b"transfer-encoding", b"chunked"),
    added("8.2.2", "upgrade", b"upgrade", b"h2c"),
    malformed("8.2.2", "te that is not trailers", replaced(b"te", b"gzip")),
    malformed("8.2.2", "te of trailers and more", replaced(b"te", b"trailers, deflate")),
    well_formed("8.2.2", "te: trailers", BLOCK),
    well_formed("8.2.3", "cookies in pieces", with_fields((b"cookie", b"a=b"), (b"cookie", b"c=d"))),
    malformed("8.3", "an unknown pseudo-header", block([*PSEUDO, (b":test", b"x"), *REGULAR])),
    malformed("8.3", "a pseudo-header of responses", block([*PSEUDO, (b":status", b"200"), *REGULAR])),
    malformed("8.3", "a pseudo-header behind other fields", block([*PSEUDO[1:], *REGULAR, PSEUDO[0]])),
    malformed(
        "8.3", "a pseudo-header between other fields", block([*PSEUDO[:3], REGULAR[0], PSEUDO[3], REGULAR[1]])
    ),
    malformed("8.3", "a pseudo-header of no name", block([*PSEUDO, (b":", b"x"), *REGULAR])),
    malformed("8.3.1", "no :method", without(b":method")),
    malformed("8.3.1", "no :scheme", without(b":scheme")),
    malformed("8.3.1", "no :path", without(b":path")),
    malformed("8.3.1", "no pseudo-header", block(REGULAR)),
    malformed("8.3.1", "no field", b""),
    malformed("8.3.1", "an empty :path", replaced(b":path", b"")),
    malformed("8.3.1", ":method twice", block([PSEUDO[0], *FIELDS])),
    malformed("8.3.1", ":scheme twice", block([PSEUDO[1], *FIELDS])),
    malformed("8.3.1", ":path twice", block([PSEUDO[2], *FIELDS])),
    malformed("8.3.1", ":authority twice", block([PSEUDO[3], *FIELDS])),
    well_formed("8.3.1", "pseudo-headers in another order", block([*PSEUDO[::-1], *REGULAR])),
    well_formed(
        "8.3.1", "host in place of :authority", without(b":authority") + block([(b"host", b"localhost")])
    ),
    case(
        "8.4",
        "PUSH_PROMISE of a client",
        request(),
        Answered(),
        frame(PUSH_PROMISE, END_HEADERS, 1, bytes([0, 0, 0, 4]) + BLOCK),
        EndsConnection(PROTOCOL_ERROR),
    ),
    malformed("8.5", "CONNECT with :path and :scheme", replaced(b":method", b"CONNECT")),
    malformed(
        "8.5",
        "CONNECT without :authority",
        block([(b":method", b"CONNECT"), *REGULAR]),
    ),
    malformed(
        "8.5", ":protocol that was not enabled", block([*PSEUDO, (b":protocol", b"websocket"), *REGULAR])
    ),
]
