import asyncio
import socket
import time
from collections.abc import Callable

import pytest

from inferstream.server import standin
from inferstream.server.http1.responses import Openings
from inferstream.server.rest import liveness
from inferstream.server.rest.liveness import LONGEST_HEAD, Listener, Liveness, probed, response
from inferstream.server.standin import StandIn

LIVE = "/v2/health/live"


@pytest.mark.parametrize(
    ("sent", "path"),
    [
        (f"GET {LIVE} HTTP/1.1\r\n\r\n", LIVE),
        (f"GET {LIVE} HTTP/1.0\r\n\r\n", LIVE),
        (f"GET {LIVE}?verbose=1 HTTP/1.1\r\nHost: x:8080\r\n\r\n", LIVE),
        (f"GET {LIVE} HTTP/1.1\r\nHost: x\r\nUser-Agent: kube-probe/1.31\r\nAccept: */*\r\n\r\n", LIVE),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "/"),
        # more has to come
        ("G", None),
        (f"GET {LIVE} HTTP/1.1\r\n", None),
        (f"GET {LIVE} HTTP/1.1\r\nHost: x\r\n\r", None),
        (f"GET {LIVE} HTTP/1.1\r\nHost: {'x' * 1000}", None),
        # the event loop's
        (f"HEAD {LIVE} HTTP/1.1\r\n\r\n", ""),
        (f"POST {LIVE} HTTP/1.1\r\n\r\n", ""),
        (f"GET {LIVE}/ HTTP/1.1\r\n\r\n", ""),
        (f"GET {LIVE}#a HTTP/1.1\r\n\r\n", ""),
        ("GET /v2/health/ready HTTP/1.1\r\n\r\n", ""),
        ("GET /v2/models/live HTTP/1.1\r\n\r\n", ""),
        (f"GET http://x{LIVE} HTTP/1.1\r\n\r\n", ""),
        (f"GET {LIVE} HTTP/2.0\r\n\r\n", ""),
        (f"GET {LIVE} HTTP/1.1\r\nno header\r\n\r\n", ""),
        (f"GET {LIVE} HTTP/1.1\r\nContent-Length: 1\r\n\r\n", ""),
        (f"GET {LIVE} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", ""),
        (f"GET {LIVE} HTTP/1.1\r\nOrigin: https://a.example\r\n\r\n", ""),
        (f"GET {LIVE} HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", ""),
        ("GET / HTTP/1.1\r\nAccept: text/html,*/*;q=0.8\r\n\r\n", ""),
        (f"GET {LIVE} HTTP/1.1\r\n{'a: b' + chr(13) + chr(10)}" * 200 + "\r\n\r\n", ""),
        (f"GET {LIVE} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", ""),
        ("x" * LONGEST_HEAD, ""),
        ("\x16\x03\x01\r\n\r\n", ""),
    ],
)
def test_only_a_whole_and_plain_probe_is_taken_for_one(sent: str, path: str | None) -> None:
    assert probed(sent.encode("latin-1")) == path


def test_the_response_has_the_headers_that_the_settings_add() -> None:
    answered = response(Openings([(b"x-from", b"us")], False), b"{}")
    assert answered == (
        b"HTTP/1.1 200 OK\r\nx-from: us\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
        b"connection: close\r\n\r\n{}"
    )


class Port:
    """Stands for a socket that listens."""

    def __init__(self) -> None:
        self._arrived: list[socket.socket] = []

    def connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(10)
        self._arrived.append(theirs)
        return ours

    @property
    def backlog(self) -> int:
        return len(self._arrived)

    def accept(self) -> tuple[socket.socket, str]:
        if not self._arrived:
            raise BlockingIOError
        return self._arrived.pop(0), ""


class Greeting(asyncio.Protocol):
    """Serves a connection: says that the event loop does."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"the event loop")
        transport.close()


@pytest.fixture
def port() -> Port:
    return Port()


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn(60)


@pytest.fixture
def probes(stand_in: StandIn, port: Port) -> Liveness:
    probes = Liveness(stand_in)
    probes.open(Listener(port, Greeting, Openings([], True)))  # type: ignore[arg-type]
    return probes


def until(condition: Callable[[], object]) -> None:
    """Hold the event loop until then."""
    given_up = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < given_up
        time.sleep(0.01)


def hold(seconds: float) -> None:
    """Hold the event loop for so long."""
    time.sleep(seconds)


async def read(client: socket.socket) -> bytes:
    client.setblocking(False)
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 1000), 10)


async def test_a_probe_is_answered_and_all_else_goes_to_the_event_loop(
    stand_in: StandIn, probes: Liveness, port: Port
) -> None:
    other, silent, left = port.connect(), port.connect(), port.connect()
    other.send(b"GET /v2 HTTP/1.1\r\n\r\n")
    left.close()

    async def load() -> str:
        probe = port.connect()
        probe.send(f"GET {LIVE} HTTP/1.1\r\n\r\n".encode())
        assert probe.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
        assert probe.recv(1000) == b""
        probe.close()
        return "loaded"

    assert await stand_in.during(load()) == "loaded"
    for client in (other, silent):
        assert await read(client) == b"the event loop"
        client.close()


async def test_no_more_connections_are_kept_than_the_bound(
    stand_in: StandIn, probes: Liveness, port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "MOST_WAITING", 2)
    clients = [port.connect() for _ in range(3)]

    async def load() -> None:
        until(lambda: port.backlog == 1)
        hold(3 * standin.LOOK_EVERY)
        assert port.backlog == 1

    await stand_in.during(load())
    for client in clients[:2]:
        assert await read(client) == b"the event loop"
    for client in (*clients, port.accept()[0]):
        client.close()


async def test_connections_are_closed_when_the_port_closes_before_the_event_loop_has_them(
    stand_in: StandIn, probes: Liveness, port: Port
) -> None:
    client = port.connect()

    async def load() -> None:
        until(lambda: port.backlog == 0)
        probes.close()

    await stand_in.during(load())
    assert await read(client) == b""
    client.close()


async def test_no_probe_is_answered_while_an_inference_holds_the_event_loop(
    stand_in: StandIn, probes: Liveness, port: Port
) -> None:
    client = port.connect()

    async def load() -> None:
        stand_in.began()
        hold(standin.BLOCKED_AFTER + 3 * standin.LOOK_EVERY)
        stand_in.ended()

    await load()
    assert port.backlog == 1
    client.close()
    port.accept()[0].close()
