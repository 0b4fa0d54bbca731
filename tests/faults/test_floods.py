"""Hostile clients of HTTP/2: the right error ends their connection, at a bounded cost, and others are served.

Frames end where the port is, in front of any worker, so one server in process stands for all. `make floods` runs the
same for longer.
"""

import json
from collections.abc import Iterator
from itertools import islice

import pytest

from tests import floods
from tests.floods import CALM, FLOODS, PROTOCOL_ERROR, Flood, Neighbour, Peer
from tests.serving import Running, write_all_models

CPU = 2.0
"""Seconds of processor time that one hostile connection may cost; nearly all cost a tenth of one."""

MEMORY = 64 * 2**20
"""Bytes by which the server may grow."""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_all_models(tmp_path_factory.mktemp("floods") / "models")
    limits = {
        "header_timeout": 1,
        "stream_stall_timeout": 1,
        "max_connections": 150,
        "max_body_bytes": 4 * 2**20,
    }
    (folder / "settings.json").write_text(json.dumps(limits))
    running = Running(folder)
    yield running
    assert running.stop() == 0


@pytest.fixture(autouse=True)
def bounded(native: Running) -> Iterator[None]:
    """Whatever a test does costs little, and a neighbour is served meanwhile."""
    spent, resident = floods.cpu(native.process.pid), native.rss()
    with Neighbour(native.grpc) as neighbour:
        yield
    assert neighbour.failures == []
    assert floods.cpu(native.process.pid) - spent < CPU
    assert native.rss() - resident < MEMORY


@pytest.mark.parametrize("name", [name for name, flood in FLOODS.items() if flood.ends is not None])
def test_flood_closes_connection(native: Running, name: str) -> None:
    flood = FLOODS[name]
    with Peer(native.grpc_port, flood.settings) as peer:
        peer.pour(floods.joined(flood.pieces()), 20, reading=flood.reading)
        seen = peer.wait(lambda seen: seen.goaway, 5)
    assert seen.goaway is not None
    assert seen.goaway[0] == flood.ends


@pytest.mark.parametrize("name", [name for name, flood in FLOODS.items() if flood.ends is None])
def test_served_flood(native: Running, name: str) -> None:
    flood: Flood = FLOODS[name]
    with Peer(native.grpc_port, flood.settings) as peer:
        peer.pour(islice(floods.joined(flood.pieces()), 2), 10)
        seen = peer.wait(lambda seen: seen.frames[floods.HEADERS] >= 100, 10)
    assert seen.goaway is None
    assert seen.frames[floods.HEADERS] >= 100
    assert b"grpc-status" in seen.headers


def test_unread_streams(native: Running) -> None:
    """The model stops at the first response that waits, and after the limit of time the stream is dropped."""
    with floods.stalled(native.grpc_port, 100, 10) as peer:
        seen = peer.wait(lambda seen: seen.resets[floods.CANCEL] >= 100, 20)
    assert seen.resets == {floods.CANCEL: 100}
    assert seen.goaway is None


def test_a_slow_preface(native: Running) -> None:
    seen = floods.slow_preface(native.grpc_port, 0.3, 15)
    assert seen.goaway is not None
    assert seen.goaway[0] == PROTOCOL_ERROR


def test_idle_connections_over_limit(native: Running) -> None:
    """Those beyond it are told why they are refused."""
    peers = floods.idle(native.grpc_port, 200)
    try:
        refused = [peer for peer in peers if peer.wait(lambda seen: seen.goaway, 0.02).goaway]
        assert {peer.seen.goaway for peer in refused} == {(CALM, "too many connections")}
        assert len(refused) >= 200 - 150
    finally:
        for peer in peers:
            peer.socket.close()


def test_a_message_of_400_mb(native: Running) -> None:
    seen = floods.oversize(native.grpc_port, 400 * 2**20, 4 * 2**20)
    assert b"grpc-status\x018" in seen.headers  # RESOURCE_EXHAUSTED
    assert seen.goaway is None


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate"])
def test_decompression_bomb(native: Running, encoding: bytes) -> None:
    """64 KB stand for 64 MB."""
    seen = floods.inflating(native.grpc_port, encoding, 64 * 2**20)
    assert b"grpc-status\x018" in seen.headers
    assert seen.goaway is None
