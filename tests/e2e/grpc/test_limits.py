"""What gRPC's cases leave open: limits, many calls at once, large messages and slow readers."""

import itertools
import threading

import grpc

from .client import Client, Requests, fails
from .engines import serving
from .interop import Interop, message

ZEROS = 100_000


def test_call_that_ends_before_client_half_closes(client: Client) -> None:
    for requests in (iter([b"x"] * 2_000), itertools.repeat(b"x" * 1_000)):
        call = client.early(requests, timeout=20)
        assert [*call] == [b"enough"]
        assert call.code() is grpc.StatusCode.OK


def test_a_message_above_the_limit(engine: str, interop: Interop) -> None:
    with serving(interop, engine, **{"grpc.max_receive_message_length": 10_000}) as port:
        with grpc.insecure_channel(port.address) as channel:
            client = Client(channel)
            assert len(client.unary(message(10_000, sizes=[20_000]), timeout=20)) == 20_000
            fails(lambda: client.unary(message(10_001), timeout=20), grpc.StatusCode.RESOURCE_EXHAUSTED)
            call = client.duplex(iter([message(10_001)]), timeout=20)
            fails(lambda: next(call), grpc.StatusCode.RESOURCE_EXHAUSTED)
            inflating = grpc.Compression.Gzip  # a few hundred bytes on the wire
            fails(
                lambda: client.unary(message(ZEROS), timeout=20, compression=inflating),
                grpc.StatusCode.RESOURCE_EXHAUSTED,
            )
            assert client.empty(b"", timeout=20) == b""


def test_a_response_above_the_limit(engine: str, interop: Interop) -> None:
    with serving(interop, engine, **{"grpc.max_send_message_length": 10_000}) as port:
        with grpc.insecure_channel(port.address) as channel:
            client = Client(channel)
            assert len(client.unary(message(sizes=[10_000]), timeout=20)) == 10_000
            fails(
                lambda: client.unary(message(sizes=[10_001]), timeout=20), grpc.StatusCode.RESOURCE_EXHAUSTED
            )
            call = client.duplex(iter([message(sizes=[10_000, 10_001])]), timeout=20)
            assert len(next(call)) == 10_000
            fails(lambda: next(call), grpc.StatusCode.RESOURCE_EXHAUSTED)
            assert client.empty(b"", timeout=20) == b""


def test_call_within_metadata_limits(client: Client) -> None:
    _, call = client.unary.with_call(message(), timeout=20, metadata=(("x-long", "a" * 8_000),))
    assert call.code() is grpc.StatusCode.OK
    fails(
        lambda: client.unary(message(), timeout=20, metadata=(("x-long", "a" * 40_000),)),
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    )
    assert client.empty(b"", timeout=20) == b""


def test_five_hundred_concurrent_calls(client: Client) -> None:
    calls = [client.unary.future(message(sizes=[number], sleep=0.2), timeout=30) for number in range(500)]
    assert [len(call.result()) for call in calls] == [*range(500)]


def test_five_hundred_concurrent_streams(client: Client) -> None:
    requests = [Requests(message(sizes=[1])) for _ in range(500)]
    calls = [client.duplex(iter(each), timeout=60) for each in requests]
    assert all(next(call) == b"\0" for call in calls)
    for each in requests:
        each.send(message(sizes=[2]))
        each.end()
    assert all([*call] == [b"\0\0"] for call in calls)


def test_slow_reader_next_to_fast_callers(client: Client) -> None:
    """The slow reader's stream waits for it, while others of the same connection go on."""
    slow = client.output(message(sizes=[2**20] * 64), timeout=60)
    assert len(next(slow)) == 2**20
    for number in range(200):
        assert len(client.unary(message(sizes=[number]), timeout=20)) == number
    assert sum(len(response) for response in slow) == 63 * 2**20


def test_twenty_mebibytes_round_trip(engine: str, interop: Interop) -> None:
    size = 20 * 2**20
    with serving(interop, engine, **{"grpc.max_receive_message_length": size}) as port:
        with grpc.insecure_channel(port.address, [("grpc.max_receive_message_length", size)]) as channel:
            client = Client(channel)
            assert client.unary(message(size, sizes=[size]), timeout=60) == bytes(size)
            call = client.duplex(iter([message(size, sizes=[size])] * 2), timeout=60)
            assert [len(response) for response in call] == [size, size]


def test_forty_concurrent_mebibyte_messages(client: Client) -> None:
    calls = [client.unary.future(message(2**20, sizes=[2**20]), timeout=60) for _ in range(40)]
    assert all(len(call.result()) == 2**20 for call in calls)


def test_many_threads_share_a_connection(client: Client) -> None:
    found: list[int] = []

    def ask() -> None:
        found.extend(len(client.unary(message(sizes=[size]), timeout=30)) for size in range(50))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted([*range(50)] * 8)
