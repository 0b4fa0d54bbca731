"""RFC 7541: header blocks, their integers and strings, and the size of the dynamic table."""

from ..case import Case, case
from ..reactions import Answered, EndsConnection
from ..request import BLOCK, FIELDS, PATH, body, head, request, with_fields
from ..wire import (
    COMPRESSION_ERROR,
    HEADER_TABLE_SIZE,
    block,
    indexed,
    literal,
    never_indexed,
    remembered,
    string,
    table_size,
)

DEFAULT_TABLE_SIZE = 4_096
METHOD_POST, SCHEME_HTTP, PATH_INDEX, AUTHORITY_INDEX, CONTENT_TYPE_INDEX = 3, 6, 4, 1, 31
FIRST_DYNAMIC = 62
LOCALHOST = bytes.fromhex("a0e41d139d09")
"""`localhost` in Huffman's code."""


def accepted(section: str, what: str, header_block: bytes) -> Case:
    return case(section, what, request(1, header_block), Answered())


def refused(section: str, what: str, *more: bytes) -> Case:
    """The request's header block with something at its end that no decoder may accept."""
    return case(section, what, head(1, BLOCK + b"".join(more)), EndsConnection(COMPRESSION_ERROR))


def above_the_table(advertised: dict[int, int]) -> bytes:
    most = advertised.get(HEADER_TABLE_SIZE, DEFAULT_TABLE_SIZE)
    return head(1, table_size(most + 1) + BLOCK)


def at_the_table(advertised: dict[int, int]) -> bytes:
    most = advertised.get(HEADER_TABLE_SIZE, DEFAULT_TABLE_SIZE)
    return request(1, table_size(most) + BLOCK)


REST = block(FIELDS[4:])
COMPACT = (
    indexed(METHOD_POST)
    + indexed(SCHEME_HTTP)
    + literal(PATH_INDEX, PATH)
    + literal(AUTHORITY_INDEX, b"localhost")
)
EVERYTHING_REMEMBERED = b"".join(remembered(name, value) for name, value in FIELDS)
EVERYTHING_AGAIN = b"".join(indexed(FIRST_DYNAMIC + place) for place in reversed(range(len(FIELDS))))

CASES = [
    accepted("2.1", "names in full, and values in full", BLOCK),
    case(
        "2.3.2",
        "fields of the dynamic table",
        request(1, EVERYTHING_REMEMBERED),
        Answered(1),
        request(3, EVERYTHING_AGAIN),
        Answered(3),
        request(5, EVERYTHING_AGAIN),
        Answered(5),
    ),
    case(
        "2.3.2",
        "the dynamic table of the connection is that of all streams",
        head(1, EVERYTHING_REMEMBERED),
        head(3, EVERYTHING_AGAIN),
        body(3),
        Answered(3),
        body(1),
        Answered(1),
    ),
    case(
        "2.3.2",
        "a malformed request changes the table too",
        head(1, EVERYTHING_REMEMBERED + literal(b"X-UPPER", b"x")),
        request(3, EVERYTHING_AGAIN),
        Answered(3),
    ),
    refused("2.3.3", "an index beyond both tables", indexed(FIRST_DYNAMIC)),
    refused("2.3.3", "an index far beyond both tables", indexed(2**20)),
    refused("2.3.3", "the index of a name beyond both tables", literal(FIRST_DYNAMIC + 8, b"x")),
    refused("2.3.3", "the index of a remembered name beyond both tables", remembered(FIRST_DYNAMIC, b"x")),
    case("4.2", "the largest table", at_the_table, Answered()),
    refused("4.2", "a change of the table's size at the end of a block", table_size(0)),
    refused(
        "4.2", "a change of the table's size in the middle of a block", table_size(0), literal(b"x", b"y")
    ),
    case(
        "4.2",
        "two changes at the beginning of a block",
        request(1, table_size(0) + table_size(100) + BLOCK),
        Answered(),
    ),
    case(
        "4.3",
        "a table of no octets forgets its fields",
        request(1, EVERYTHING_REMEMBERED),
        Answered(1),
        head(3, table_size(0) + EVERYTHING_AGAIN),
        EndsConnection(COMPRESSION_ERROR),
    ),
    case(
        "4.4",
        "an entry larger than the table empties it",
        request(1, table_size(100) + BLOCK + remembered(b"small", b"x")),
        Answered(1),
        request(3, BLOCK + remembered(b"large", b"x" * 200)),
        Answered(3),
        head(5, BLOCK + indexed(FIRST_DYNAMIC)),
        EndsConnection(COMPRESSION_ERROR),
    ),
    case(
        "4.4",
        "the oldest entry leaves",
        request(
            1, table_size(100) + BLOCK + remembered(b"oldest", b"x" * 20) + remembered(b"newest", b"x" * 20)
        ),
        Answered(1),
        request(3, BLOCK + indexed(FIRST_DYNAMIC)),
        Answered(3),
        head(5, BLOCK + indexed(FIRST_DYNAMIC + 1)),
        EndsConnection(COMPRESSION_ERROR),
    ),
    accepted("5.1", "an integer with octets of nothing", BLOCK + b"\0\x01x\x7f\x80\x00" + b"y" * 127),
    refused("5.1", "an integer without an end", b"\xff" + b"\x80" * 100),
    refused("5.1", "an integer beyond 64 bits", b"\xff" + b"\xff" * 12 + b"\x7f"),
    refused("5.1", "an integer that is cut off", b"\xff\x80"),
    refused("5.2", "a name that is cut off", b"\0\x05abc"),
    refused("5.2", "a value that is cut off", b"\0\x01a\x7f\x01xyz"),
    refused("5.2", "a field without a value", b"\0\x01a"),
    accepted(
        "5.2",
        "a value in Huffman's code",
        COMPACT[: -len(string(b"localhost"))] + string(LOCALHOST, True) + REST,
    ),
    refused(
        "5.2", "Huffman's code with eight bits of padding", b"\0\x01x" + string(LOCALHOST + b"\xff", True)
    ),
    refused("5.2", "Huffman's code padded with zeros", b"\0\x01x" + string(b"\x18", True)),
    refused("5.2", "Huffman's code with EOS", b"\0\x01x" + string(b"\xff\xff\xff\xff", True)),
    refused("5.2", "EOS behind a character", b"\0\x01x" + string(b"\x1f\xff\xff\xff\xff", True)),
    accepted("6.1", "fields of the static table", COMPACT + REST),
    refused("6.1", "index 0", indexed(0)),
    accepted("6.2.1", "fields to remember, by name", EVERYTHING_REMEMBERED),
    accepted(
        "6.2.1",
        "fields to remember, by index",
        COMPACT + remembered(CONTENT_TYPE_INDEX, b"application/grpc") + REST[-13:],
    ),
    accepted(
        "6.2.2",
        "fields not to remember, by index",
        COMPACT + literal(CONTENT_TYPE_INDEX, b"application/grpc"),
    ),
    accepted(
        "6.2.3",
        "fields never to remember, by name",
        with_fields() + never_indexed(b"authorization", b"secret"),
    ),
    accepted("6.2.3", "fields never to remember, by index", BLOCK + never_indexed(23, b"secret")),
    case("6.3", "a table above the server's setting", above_the_table, EndsConnection(COMPRESSION_ERROR)),
    refused("6.3", "a size that is cut off", b"\x3f"),
]
