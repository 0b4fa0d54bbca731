"""gRPC's interoperability test cases, with the client of grpcio."""

import struct
import zlib

import grpc
import pytest

from tests.conformance.http2 import wire
from tests.conformance.http2.conversation import Conversation
from tests.conformance.http2.request import PSEUDO, REGULAR
from tests.serving import eventually

from .client import Client, Requests, fails
from .engines import Port, serving
from .interop import INITIAL, SERVICE, TRAILING, Interop, message, read

ZEROS = 100_000


def test_empty_unary(client: Client) -> None:
    assert client.empty(b"", timeout=20) == b""


def test_large_unary(client: Client) -> None:
    assert client.unary(message(271_828, sizes=[314_159]), timeout=20) == bytes(314_159)


def test_client_streaming(client: Client) -> None:
    sizes = (27_182, 8, 1_828, 45_904)
    assert read(client.input(iter([bytes(size) for size in sizes]), timeout=20)) == {"total": sum(sizes)}


def test_server_streaming(client: Client) -> None:
    sizes = [31_415, 9, 2_653, 58_979]
    assert [len(response) for response in client.output(message(sizes=sizes), timeout=20)] == sizes


def test_ping_pong(client: Client) -> None:
    requests = Requests()
    call = client.duplex(iter(requests), timeout=20)
    for size, expected in ((27_182, 31_415), (8, 9), (1_828, 2_653), (45_904, 58_979)):
        requests.send(message(size, sizes=[expected]))
        assert len(next(call)) == expected
    requests.end()
    assert next(call, None) is None
    assert call.code() is grpc.StatusCode.OK


def test_empty_stream(client: Client) -> None:
    call = client.duplex(iter([]), timeout=20)
    assert [*call] == []
    assert call.code() is grpc.StatusCode.OK
    assert read(client.input(iter([]), timeout=20)) == {"total": 0}


def test_cancel_after_start(client: Client) -> None:
    requests = Requests()
    call = client.input.future(iter(requests), timeout=20)
    call.cancel()
    requests.end()
    assert call.code() is grpc.StatusCode.CANCELLED


def test_cancel_after_first_response(client: Client, interop: Interop, engine: str) -> None:
    tag = f"{engine} first"
    requests = Requests(message(27_182, sizes=[31_415], tag=tag))
    call = client.duplex(iter(requests), timeout=20)
    assert len(next(call)) == 31_415
    call.cancel()
    fails(lambda: next(call), grpc.StatusCode.CANCELLED)
    requests.end()
    # A read may see the end of the requests before the engine cancels the call.
    eventually(lambda: {f"{tag} left", f"{tag} ended"} & {*interop.ended})


def test_cancel_of_running_unary_call(client: Client, interop: Interop, engine: str) -> None:
    tag = f"{engine} unary"
    served = len(interop.clients)
    call = client.unary.future(message(sleep=60, tag=tag), timeout=30)
    eventually(lambda: len(interop.clients) > served)
    call.cancel()
    eventually(lambda: f"{tag} cancelled" in interop.ended)


def test_timeout_on_sleeping_server(client: Client, interop: Interop, engine: str) -> None:
    tag = f"{engine} sleeping"
    requests = Requests(message(27_182, sleep=60, tag=tag))
    call = client.duplex(iter(requests), timeout=0.2)
    fails(lambda: next(call), grpc.StatusCode.DEADLINE_EXCEEDED)
    requests.end()
    eventually(lambda: f"{tag} cancelled" in interop.ended)
    fails(lambda: client.unary(message(sleep=60), timeout=0.2), grpc.StatusCode.DEADLINE_EXCEEDED)


def test_server_ends_expired_call(port: Port, interop: Interop, engine: str) -> None:
    """A client that does not count the time itself gets the status from the server."""
    tag = f"{engine} late"
    with Conversation(("127.0.0.1", port.number)) as conversation:
        conversation.open()
        conversation.send(call_of("Unary", message(sleep=60, tag=tag), (b"grpc-timeout", b"100m")))
        response = ended(conversation)
    assert dict(response.fields)["grpc-status"] == "4"
    eventually(lambda: f"{tag} cancelled" in interop.ended)


def test_status_code_and_message(client: Client) -> None:
    failing = message(code=2, message="test status message")
    fails(lambda: client.unary(failing, timeout=20), grpc.StatusCode.UNKNOWN, "test status message")
    requests = Requests(failing)
    call = client.duplex(iter(requests), timeout=20)
    fails(lambda: next(call), grpc.StatusCode.UNKNOWN, "test status message")
    requests.end()


@pytest.mark.parametrize(
    "said",
    [
        "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n",
        "",
        " ",
        "100% of %41",
        "\0\x7f",
        "x" * 4_000,
    ],
    ids=["unicode", "empty", "space", "percent", "control", "long"],
)
def test_special_status_message(client: Client, said: str) -> None:
    fails(lambda: client.unary(message(code=2, message=said), timeout=20), grpc.StatusCode.UNKNOWN, said)


@pytest.mark.parametrize("code", range(1, 17))
def test_every_status_code(client: Client, code: int) -> None:
    found = fails(
        lambda: client.unary(message(code=code, message="said", trailing=[("x-why", "because")]), timeout=20),
        next(each for each in grpc.StatusCode if each.value[0] == code),
        "said",
    )
    assert ("x-why", "because") in [tuple(pair) for pair in found.trailing_metadata()]


def test_status_follows_responses(client: Client) -> None:
    requests = Requests(
        message(sizes=[5, 6]), message(code=9, message="no more", trailing=[("x-why", "because")])
    )
    call = client.duplex(iter(requests), timeout=20)
    assert [len(next(call)), len(next(call))] == [5, 6]
    found = fails(lambda: next(call), grpc.StatusCode.FAILED_PRECONDITION, "no more")
    assert ("x-why", "because") in [tuple(pair) for pair in found.trailing_metadata()]
    requests.end()


@pytest.mark.parametrize("path", [f"/{SERVICE}/Nothing", "/testing.Nothing/Unary", "/", "/a/b/c"])
def test_unimplemented(client: Client, path: str) -> None:
    fails(lambda: client.channel.unary_unary(path)(b"", timeout=20), grpc.StatusCode.UNIMPLEMENTED)
    call = client.channel.stream_stream(path)(iter([b"x"]), timeout=20)
    fails(lambda: next(call), grpc.StatusCode.UNIMPLEMENTED)


METADATA = ((INITIAL, "test_initial_metadata_value"), (TRAILING, b"\xab\xab\xab"))


def test_custom_metadata(client: Client) -> None:
    response, call = client.unary.with_call(message(sizes=[9]), timeout=20, metadata=METADATA)
    assert len(response) == 9
    assert ("x-grpc-test-echo-initial", "test_initial_metadata_value") in [*call.initial_metadata()]
    assert ("x-echoed", "ababab") in [*call.trailing_metadata()]
    duplex = client.duplex(iter([message(sizes=[9])]), timeout=20, metadata=METADATA)
    assert (INITIAL, "test_initial_metadata_value") in [*duplex.initial_metadata()]
    assert [len(response) for response in duplex] == [9]
    assert ("x-echoed", "ababab") in [*duplex.trailing_metadata()]


@pytest.mark.parametrize("value", [b"", b"\0", b"\xff" * 2, b"a" * 3, bytes(range(256))])
def test_binary_metadata_of_every_length(client: Client, value: bytes) -> None:
    _, call = client.unary.with_call(message(), timeout=20, metadata=((TRAILING, value),))
    assert ("x-echoed", value.hex()) in [*call.trailing_metadata()]


def test_metadata_order_is_kept(client: Client, interop: Interop) -> None:
    sent = [("x-a", "1"), ("x-b-bin", b"\xff"), ("x-a", "2"), ("x-c", "!~")]
    client.unary(message(), timeout=20, metadata=sent)
    peer, metadata = interop.clients[-1]
    assert [pair for pair in metadata if pair[0].startswith("x-")] == [
        ("x-a", "1"),
        ("x-b-bin", b"\xff"),
        ("x-a", "2"),
        ("x-c", "!~"),
    ]
    assert peer.startswith("ipv4:127.0.0.1:")


def test_initial_metadata_precedes_first_response(client: Client) -> None:
    requests = Requests()
    call = client.duplex(iter(requests), timeout=20, metadata=METADATA[:1])
    assert (INITIAL, "test_initial_metadata_value") in [*call.initial_metadata()]
    requests.end()
    assert [*call] == []


# Compression


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_client_compressed_calls(client: Client, compression: grpc.Compression) -> None:
    assert (
        len(client.unary(message(271_828, sizes=[314_159]), timeout=20, compression=compression)) == 314_159
    )
    sent = [bytes(27_182), bytes(45_904), b""]
    assert read(client.input(iter(sent), timeout=20, compression=compression)) == {"total": 73_086}
    call = client.duplex(
        iter([message(ZEROS, sizes=[1]), message(sizes=[2])]), timeout=20, compression=compression
    )
    assert [len(response) for response in call] == [1, 2]


def call_of(method: str, data: bytes, *fields: tuple[bytes, bytes], compressed: bool = False) -> bytes:
    """A call as frames; a large message needs several."""
    pseudo = [
        (name, f"/{SERVICE}/{method}".encode() if name == b":path" else value) for name, value in PSEUDO
    ]
    block = wire.block([*pseudo, *REGULAR, *fields])
    octets = struct.pack(">?I", compressed, len(data)) + data
    return wire.headers(block, flags=wire.END_HEADERS) + wire.data(octets)


def ended(conversation: Conversation) -> object:
    response = conversation.response(1)
    conversation.wait_for(lambda _: response.ended or response.reset is not None, "the end of the call")
    return response


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_message_on_the_wire(port: Port, encoding: str) -> None:
    compressor = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
    data = compressor.compress(message(ZEROS, sizes=[3])) + compressor.flush()
    with Conversation(("127.0.0.1", port.number)) as conversation:
        conversation.open()
        conversation.send(call_of("Unary", data, (b"grpc-encoding", encoding.encode()), compressed=True))
        response = ended(conversation)
    assert dict(response.fields)["grpc-status"] == "0"
    assert response.data == struct.pack(">?I", False, 3) + bytes(3)


def test_unknown_encoding(port: Port, engine: str) -> None:
    with Conversation(("127.0.0.1", port.number)) as conversation:
        conversation.open()
        conversation.send(call_of("Unary", b"rubbish", (b"grpc-encoding", b"snappy"), compressed=True))
        response = ended(conversation)
    fields = dict(response.fields)
    if engine == "grpcio":  # where gRPC's specification of compression wants UNIMPLEMENTED and the list
        assert fields["grpc-status"] == "13"
        return
    assert fields["grpc-status"] == "12"
    assert "gzip" in fields["grpc-accept-encoding"]


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_server_compressed_calls(engine: str, interop: Interop, algorithm: str) -> None:
    number = {"deflate": 1, "gzip": 2}[algorithm]
    with serving(interop, engine, **{"grpc.default_compression_algorithm": number}) as port:
        with grpc.insecure_channel(port.address) as channel:
            client = Client(channel)
            assert len(client.unary(message(sizes=[314_159]), timeout=20)) == 314_159
            sizes = [31_415, 0, 92_653]
            assert [len(each) for each in client.output(message(sizes=sizes), timeout=20)] == sizes
        # The library compresses for a client too that accepts no compression.
        for accepted in (b"identity,deflate,gzip", b"identity")[: 1 + (engine != "grpcio")]:
            with Conversation(("127.0.0.1", port.number)) as conversation:
                conversation.open()
                conversation.send(
                    call_of("Unary", message(sizes=[10_000]), (b"grpc-accept-encoding", accepted))
                )
                response = ended(conversation)
            compressed, size = struct.unpack(">?I", response.data[:5])
            if accepted == b"identity":
                assert (compressed, size) == (False, 10_000)
                continue
            assert dict(response.fields)["grpc-encoding"] == algorithm
            wbits = 31 if algorithm == "gzip" else 15
            assert (compressed, size) == (True, len(response.data) - 5)
            assert zlib.decompress(response.data[5:], wbits=wbits) == bytes(10_000)
