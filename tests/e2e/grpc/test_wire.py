"""gRPC over HTTP/2, byte by byte: what is a call, how its messages are cut, and how wrong ones end."""

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.http2 import wire
from tests.conformance.http2.conversation import Conversation, Response
from tests.conformance.http2.request import FIELDS
from tests.serving import eventually

from .engines import ENGINES, Port, serving
from .interop import SERVICE, Interop, message

INTERNAL, UNIMPLEMENTED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED = "13", "12", "3", "8"


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def interop() -> Interop:
    return Interop()


@pytest.fixture(scope="module")
def port(engine: str, interop: Interop) -> Iterator[Port]:
    with serving(interop, engine) as port:
        yield port


@pytest.fixture
def conversation(port: Port) -> Iterator[Conversation]:
    with Conversation(("127.0.0.1", port.number)) as conversation:
        conversation.open()
        yield conversation


def head(method: str, stream: int = 1, end: bool = False, **changed: bytes | None) -> bytes:
    """The head of a call, with fields changed, added, or left out; `_path` is the pseudo-header."""
    fields = {**dict(FIELDS), b":path": f"/{SERVICE}/{method}".encode()}
    for name, value in changed.items():
        fields[name.replace("_", ":" if name.startswith("_") else "-").encode()] = value
    block = wire.block((name, value) for name, value in fields.items() if value is not None)
    return wire.headers(block, stream, wire.END_HEADERS | (wire.END_STREAM if end else 0))


def prefixed(octets: bytes, flags: int = 0, size: int | None = None) -> bytes:
    return struct.pack(">BI", flags, len(octets) if size is None else size) + octets


def ended(conversation: Conversation, stream: int = 1) -> Response:
    response = conversation.response(stream)
    if not response.ended:
        conversation.wait_for(lambda _: response.ended or response.reset is not None, "the end of the call")
    return response


def status(response: Response) -> str:
    return dict(response.fields).get("grpc-status", f"HTTP {response.status}, reset {response.reset}")


# The head


@pytest.mark.parametrize(
    "content_type", ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"]
)
def test_content_types_of_calls(conversation: Conversation, content_type: str) -> None:
    conversation.send(head("Empty", content_type=content_type.encode()) + wire.data(prefixed(b"")))
    response = ended(conversation)
    assert (status(response), response.data) == ("0", prefixed(b""))
    assert dict(response.fields)["content-type"].startswith("application/grpc")


@pytest.mark.parametrize("content_type", [b"application/json", b"application/grpcweb", b"text/html", None])
def test_non_grpc_request_has_http_status(
    conversation: Conversation, engine: str, content_type: bytes | None
) -> None:
    if engine == "grpcio":
        pytest.skip("the library takes every content type for a call")
    conversation.send(head("Empty", content_type=content_type) + wire.data(prefixed(b"")))
    assert ended(conversation).status == "415"


def test_optional_fields(conversation: Conversation, engine: str) -> None:
    if engine == "grpcio":
        pytest.skip("the library resets such a call")
    conversation.send(head("Empty", te=None, _authority=None) + wire.data(prefixed(b"")))
    assert status(ended(conversation)) == "0"


@pytest.mark.parametrize("timeout", ["1H", "99999999H", "5M", "30S", "30000m", "30000000u", "99999999n"])
def test_timeouts_in_every_unit(conversation: Conversation, timeout: str) -> None:
    conversation.send(head("Empty", grpc_timeout=timeout.encode()) + wire.data(prefixed(b"")))
    assert status(ended(conversation)) == "0"


@pytest.mark.parametrize("timeout", ["1u", "1n"])
def test_expired_timeout(conversation: Conversation, timeout: str) -> None:
    conversation.send(head("Unary", grpc_timeout=timeout.encode()) + wire.data(prefixed(message(sleep=60))))
    assert status(ended(conversation)) == "4"


@pytest.mark.parametrize("timeout", ["1", "S", "-1S", "1.5S", "1x", "123456789S", ""])
def test_malformed_timeouts(conversation: Conversation, engine: str, timeout: str) -> None:
    if engine == "grpcio":
        pytest.skip("the library takes some of them for no timeout")
    conversation.send(head("Empty", grpc_timeout=timeout.encode()) + wire.data(prefixed(b"")))
    assert status(ended(conversation)) == INTERNAL


SIZES = (40_000, 70_000, 300_000, 1_000_000)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("most", [16_384, 2**20], ids=["small frames", "large frames"])
def test_oversized_metadata_gets_status_and_ends_no_other_call(
    conversation: Conversation, engine: str, size: int, most: int
) -> None:
    if engine == "grpcio":
        pytest.skip("the library takes frames of 16 KiB alone, and ends the connection above 64 KiB too")
    conversation.send(head("Unary") + wire.data(prefixed(message(sleep=0.5, sizes=[3])), 1))
    large = head("Empty", 3, x_large=b"a" * size)[9:]
    pieces = [large[at : at + most] for at in range(0, len(large), most)]
    kinds = [wire.HEADERS] + [wire.CONTINUATION] * (len(pieces) - 1)
    for at, (kind, piece) in enumerate(zip(kinds, pieces, strict=True)):
        conversation.send(wire.frame(kind, wire.END_HEADERS if at == len(pieces) - 1 else 0, 3, piece))
    conversation.send(wire.data(prefixed(b""), 3))
    refused = ended(conversation, 3)
    assert (status(refused), dict(refused.fields)["grpc-message"]) == (
        RESOURCE_EXHAUSTED,
        "The metadata is larger than allowed.",
    )
    assert status(ended(conversation)) == "0"
    conversation.send(head("Empty", 5) + wire.data(prefixed(b""), 5))
    assert status(ended(conversation, 5)) == "0", "the tables of the compression are right"


# Messages in frames


class Cut(NamedTuple):
    what: str
    frames: tuple[bytes, ...]


ECHOED = message(sizes=[3]) + bytes(40)
WHOLE = prefixed(ECHOED)
CUTS = [
    Cut("one frame", (wire.data(WHOLE),)),
    Cut("an empty frame at the end", (wire.data(WHOLE, flags=0), wire.data(b""))),
    Cut("empty frames before", (wire.data(b"", flags=0), wire.data(b"", flags=0), wire.data(WHOLE))),
    Cut("within the prefix", (wire.data(WHOLE[:3], flags=0), wire.data(WHOLE[3:]))),
    Cut("behind the prefix", (wire.data(WHOLE[:5], flags=0), wire.data(WHOLE[5:]))),
    Cut(
        "octet by octet",
        (*(wire.data(WHOLE[at : at + 1], flags=0) for at in range(len(WHOLE))), wire.data(b"")),
    ),
    Cut("trailers at the end", (wire.data(WHOLE, flags=0), wire.headers(wire.block([(b"x-last", b"word")])))),
]


@pytest.mark.parametrize("cut", CUTS, ids=[cut.what for cut in CUTS])
@pytest.mark.parametrize("method", ["Unary", "Output"])
def test_message_split_over_frames(conversation: Conversation, cut: Cut, method: str) -> None:
    conversation.send(head(method) + b"".join(cut.frames))
    response = ended(conversation)
    assert (status(response), response.data) == ("0", prefixed(bytes(3)))


def test_many_messages_in_and_across_frames(conversation: Conversation) -> None:
    octets = b"".join(prefixed(message(sizes=[size])) for size in range(100))
    conversation.send(head("Duplex") + wire.data(octets[:777], flags=0) + wire.data(octets[777:]))
    response = ended(conversation)
    assert status(response) == "0"
    assert response.data == b"".join(prefixed(bytes(size)) for size in range(100))


def test_response_arrives_before_half_close(conversation: Conversation) -> None:
    conversation.send(head("Duplex") + wire.data(prefixed(message(sizes=[3])), flags=0))
    response = conversation.response(1)
    conversation.wait_for(lambda _: len(response.data) >= 8, "a response")
    assert not response.ended
    conversation.send(wire.data(b""))
    assert status(ended(conversation)) == "0"


def test_message_at_limit_and_above(engine: str) -> None:
    with serving(Interop(), engine, **{"grpc.max_receive_message_length": 1_000}) as port:
        with Conversation(("127.0.0.1", port.number)) as conversation:
            conversation.open()
            for method, first in (("Unary", 1), ("Duplex", 5)):
                conversation.send(head(method, first) + wire.data(prefixed(message(1_000)), first))
                assert status(ended(conversation, first)) == "0"
                # The prefix is enough: the message itself never comes.
                announced = wire.data(prefixed(b"", size=1_001), first + 2, 0)
                conversation.send(head(method, first + 2) + announced)
                assert status(ended(conversation, first + 2)) == "8"


# Messages that are wrong


class Wrong(NamedTuple):
    what: str
    data: bytes
    codes: tuple[str, ...]
    method: str = "Unary"
    encoding: bytes | None = None


def gzipped(octets: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=31)
    return compressor.compress(octets) + compressor.flush()


WRONG = [
    Wrong("no message", b"", (INTERNAL, UNIMPLEMENTED)),
    Wrong("two messages", prefixed(b"") * 2, (INTERNAL, UNIMPLEMENTED)),
    Wrong("half a prefix", prefixed(b"")[:3], (INTERNAL,)),
    Wrong("half a message", prefixed(b"x", size=2), (INTERNAL,)),
    Wrong("half a message of a stream", prefixed(b"x", size=2), (INTERNAL,), "Duplex"),
    Wrong("flags that do not exist", prefixed(b"{}", flags=2), (INTERNAL, INVALID_ARGUMENT)),
    Wrong(
        "a compressed message without an encoding",
        prefixed(gzipped(b"{}"), flags=1),
        (INTERNAL, INVALID_ARGUMENT),
    ),
    Wrong(
        "a message that is not gzip",
        prefixed(b"rubbish", flags=1),
        (INTERNAL, INVALID_ARGUMENT),
        encoding=b"gzip",
    ),
    Wrong(
        "gzip that is cut off",
        prefixed(gzipped(b"{}")[:-9], flags=1),
        (INTERNAL, INVALID_ARGUMENT),
        encoding=b"gzip",
    ),
    Wrong(
        "deflate that is not zlib",
        prefixed(b"rubbish", flags=1),
        (INTERNAL, INVALID_ARGUMENT),
        encoding=b"deflate",
    ),
]
UNDETECTED = {
    "no message": "the library waits for one, or cancels the call",
    "two messages": "the library takes the first",
    "half a prefix": "the library cancels the call",
    "half a message": "the library cancels the call",
    "half a message of a stream": "the library takes it for the end",
    "flags that do not exist": "the library takes them for none",
}


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong.what for wrong in WRONG])
def test_malformed_messages(conversation: Conversation, engine: str, wrong: Wrong) -> None:
    if engine == "grpcio" and wrong.what in UNDETECTED:
        pytest.skip(UNDETECTED[wrong.what])
    conversation.send(head(wrong.method, grpc_encoding=wrong.encoding) + wire.data(wrong.data))
    assert status(ended(conversation)) in wrong.codes
    conversation.ping()


def test_uncompressed_messages_in_compressed_call(conversation: Conversation) -> None:
    mixed = prefixed(message(sizes=[1])) + prefixed(gzipped(message(sizes=[2])), flags=1)
    conversation.send(head("Duplex", grpc_encoding=b"gzip") + wire.data(mixed))
    response = ended(conversation)
    assert (status(response), response.data) == ("0", prefixed(bytes(1)) + prefixed(bytes(2)))


# Messages that wait


def resident() -> int:
    return int(re.findall(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[0]) * 1024


def test_queued_messages_stay_compressed(engine: str) -> None:
    """A stream may send what inflates to gigabytes; it costs memory only as the RPC reads it."""
    inflated, count = 8 * 2**20, 100
    interop = Interop()
    with serving(interop, engine, **{"grpc.max_receive_message_length": inflated}) as port:
        with Conversation(("127.0.0.1", port.number)) as conversation:
            conversation.open()
            bomb = prefixed(gzipped(message(inflated)), flags=1)
            begins = head("Duplex", grpc_encoding=b"gzip")
            conversation.send(begins + wire.data(prefixed(message(sleep=60, tag="bombs")), flags=0))
            conversation.ping()
            before = resident()
            for _ in range(count):
                conversation.send(wire.data(bomb, flags=0))
            conversation.ping()
            assert resident() - before < count * inflated // 4
        ends = {"bombs cancelled", "bombs left", "bombs ended"}
        eventually(lambda: ends & {*interop.ended}, seconds=90)  # grpcio inflates all of them first


def test_queued_empty_messages_are_bounded(engine: str) -> None:
    """Each takes five bytes of the window, and more of the server's memory."""
    interop = Interop()
    with serving(interop, engine) as port:
        with Conversation(("127.0.0.1", port.number)) as conversation:
            conversation.open()
            conversation.send(head("Duplex") + wire.data(prefixed(message(sleep=60, tag="empty")), flags=0))
            conversation.ping()
            window = conversation.settings.get(wire.INITIAL_WINDOW_SIZE, 65_535)
            before = resident()
            octets = prefixed(b"") * 3_276
            for _ in range((window - 100) // len(octets)):
                conversation.send(wire.data(octets, flags=0))
            conversation.ping()
            assert resident() - before < 32 * 2**20
        eventually(lambda: {"empty cancelled", "empty left", "empty ended"} & {*interop.ended})
