"""Connections of each engine: how they end, who may open them, and what they carry at once."""

import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.certificates import Authority
from tests.conformance.http2 import wire
from tests.conformance.http2.conversation import Conversation, Unexpected
from tests.conformance.http2.request import FIELDS
from tests.serving import Running, eventually, write_model

from .engines import ENGINES, Port, serving
from .interop import SERVICE, Interop, message


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


Serve = Callable[..., Running]


@pytest.fixture
def serve(start: Serve, tmp_path: Path) -> Serve:
    """Start a server with some models, and these settings."""

    def serve(**settings: object) -> Running:
        folder = tmp_path / "models"
        for name in ("Echo", "Slow", "Streaming"):
            write_model(folder, name.lower(), f"faulty_models.{name}")
        (folder / "settings.json").write_text(json.dumps(settings))
        return start(folder)

    return serve


def infer_request(model: str, id: str = "", **parameters: float) -> ModelInferRequest:
    made = ModelInferRequest(model_name=model, id=id)
    made.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.5)
    for name, value in parameters.items():
        if isinstance(value, int):
            made.parameters[name].int64_param = value
        else:
            made.parameters[name].double_param = value
    return made


# The end


def test_sigterm_lets_calls_finish(serve: Serve) -> None:
    running = serve()
    with (
        grpc.insecure_channel(running.grpc) as channel,
        Conversation(("127.0.0.1", running.grpc_port)) as conversation,
        ThreadPoolExecutor(30) as pool,
    ):
        stub = GRPCInferenceServiceStub(channel)
        calls = [
            pool.submit(stub.ModelInfer, infer_request("slow", f"call-{number}", seconds=2), timeout=30)
            for number in range(20)
        ]
        streams = [
            pool.submit(
                lambda asked: [*stub.ModelStreamInfer(iter([asked]), timeout=30)],
                infer_request("streaming", f"stream-{number}", items=20, delay=0.1),
            )
            for number in range(5)
        ]
        conversation.open()
        octets = infer_request("slow", "raw", seconds=2).SerializeToString()
        conversation.send(call_of("/inference.GRPCInferenceService/ModelInfer", octets))
        names = [*(f"call-{each}" for each in range(20)), *(f"stream-{each}" for each in range(5)), "raw"]
        eventually(lambda: all(running.noted(f"start {name}") for name in names), 20)

        running.begin_stop()

        conversation.wait_for(lambda frame: frame.kind == wire.GOAWAY, "GOAWAY")
        assert not conversation.response(1).begun, "the client learns of the stop before its call ends"
        assert [call.result().outputs[0].name for call in calls] == ["output"] * 20
        assert [len(stream.result()) for stream in streams] == [20] * 5
        conversation.wait_for_end()
    assert conversation.response(1).ended
    assert dict(conversation.response(1).fields)["grpc-status"] == "0"
    goaways = [frame.payload for frame in conversation.frames if frame.kind == wire.GOAWAY]
    assert {payload[4:8] for payload in goaways} == {bytes(4)}
    assert int.from_bytes(goaways[-1][:4]) & wire.LARGEST_WINDOW >= 1  # the call was served
    assert running.stop(30) == 0, running.text()


def call_of(path: str, octets: bytes, stream: int = 1) -> bytes:
    fields = [(name, path.encode() if name == b":path" else value) for name, value in FIELDS]
    prefixed = b"\0" + len(octets).to_bytes(4) + octets
    return wire.headers(wire.block(fields), stream, wire.END_HEADERS) + wire.data(prefixed, stream)


def test_client_reconnects_after_max_connection_age(engine: str) -> None:
    interop = Interop()
    old = {"grpc.max_connection_age_ms": 200, "grpc.max_connection_age_grace_ms": 20_000}
    with serving(interop, engine, **old) as port, grpc.insecure_channel(port.address) as channel:
        unary = channel.unary_unary(f"/{SERVICE}/Unary")
        stream = channel.unary_stream(f"/{SERVICE}/Output")(message(sleep=1, sizes=[7]), timeout=30)
        peers: set[str] = set()

        def moved() -> bool:
            assert unary(message(sizes=[5]), timeout=20) == bytes(5)
            peers.add(interop.clients[-1][0])
            return len(peers) >= 4

        eventually(moved, 30)
        assert [*stream] == [bytes(7)]  # its own connection stayed for it


def test_idle_connection_closes_gracefully(engine: str) -> None:
    with serving(Interop(), engine, **{"grpc.max_connection_idle_ms": 300}) as port:
        with Conversation(("127.0.0.1", port.number)) as conversation:
            conversation.open()
            conversation.send(call_of(f"/{SERVICE}/Unary", message(sleep=1)))
            response = conversation.response(1)
            conversation.wait_for(
                lambda _: response.ended, "the response, as a connection with a call is not idle"
            )
            found = conversation.wait_for(lambda frame: frame.kind == wire.GOAWAY, "GOAWAY")
            if engine != "grpcio":  # which says INTERNAL_ERROR
                assert found.payload[4:8] == bytes(4)
            acknowledge_pings(conversation)
            conversation.wait_for_end()


def acknowledge_pings(conversation: Conversation) -> None:
    for frame in conversation.frames:
        if frame.kind == wire.PING and not frame.flags & wire.ACK:
            conversation.send(wire.ping(frame.payload, wire.ACK))


def test_missing_ping_ack_closes_connection(engine: str, interop: Interop) -> None:
    alive = {"grpc.keepalive_time_ms": 300, "grpc.keepalive_timeout_ms": 500}
    if engine == "grpcio":  # which waits a minute by default, and does not count `keepalive_timeout_ms`
        alive["grpc.http2.ping_timeout_ms"] = 500
    with serving(interop, engine, **alive) as port:
        with Conversation(("127.0.0.1", port.number)) as conversation:
            conversation.open()
            conversation.send(call_of(f"/{SERVICE}/Unary", message(sleep=60, tag=f"{engine} silent")))
            conversation.wait_for(
                lambda frame: frame.kind == wire.PING and not frame.flags & wire.ACK, "a PING"
            )
            conversation.wait_for_end()
        eventually(lambda: f"{engine} silent cancelled" in interop.ended)


def test_acknowledged_pings_keep_connection(engine: str, interop: Interop) -> None:
    alive = {"grpc.keepalive_time_ms": 300, "grpc.keepalive_timeout_ms": 500}
    with serving(interop, engine, **alive) as port:
        with Conversation(("127.0.0.1", port.number)) as conversation:
            conversation.open()
            conversation.send(call_of(f"/{SERVICE}/Unary", message(sleep=60)))
            for _ in range(4):
                found = conversation.wait_for(
                    lambda frame: frame.kind == wire.PING and not frame.flags & wire.ACK, "a PING"
                )
                conversation.send(wire.ping(found.payload, wire.ACK))
            assert not conversation.closed


@pytest.fixture
def interop() -> Interop:
    return Interop()


def test_disconnect_cancels_calls(engine: str, interop: Interop) -> None:
    with serving(interop, engine) as port:
        with Conversation(("127.0.0.1", port.number)) as conversation:
            conversation.open()
            conversation.send(call_of(f"/{SERVICE}/Unary", message(sleep=60, tag="one"), 1))
            conversation.send(call_of(f"/{SERVICE}/Output", message(sleep=60, tag="two"), 3))
            conversation.ping()
            eventually(lambda: len(interop.clients) == 1)
        eventually(lambda: {"one cancelled", "two cancelled"} <= {*interop.ended})


# Encryption


class Secure:
    """A port with certificates whose clients may need their own."""

    def __init__(self, folder: Path, mutual: bool) -> None:
        self.authority = Authority(folder)
        self.files = self.authority.issue("server")
        options = {**self.files, **({"ssl_ca_certs": str(self.authority.pem)} if mutual else {})}
        self.port = Port(Interop(), "native", **options)

    def channel(self, client: dict[str, str] | None = None) -> grpc.Channel:
        files = [] if client is None else [client["ssl_keyfile"], client["ssl_certfile"]]
        octets = [Path(each).read_bytes() for each in (self.authority.pem, *files)]
        # Otherwise channels to one address share a connection.
        own = [("grpc.use_local_subchannel_pool", 1)]
        return grpc.secure_channel(self.port.address, grpc.ssl_channel_credentials(*octets), own)

    def context(self, *protocols: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.authority.pem)
        context.set_alpn_protocols([*protocols])
        return context


def echo(channel: grpc.Channel) -> None:
    assert channel.unary_unary(f"/{SERVICE}/Unary")(message(sizes=[7]), timeout=20) == bytes(7)


@pytest.fixture(params=[False, True], ids=["one-sided", "mutual"])
def secure(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Secure]:
    found = Secure(tmp_path / "certificates", request.param)
    yield found
    found.port.stop()


@pytest.mark.parametrize("secure", [True], ids=["mutual"], indirect=True)
def test_client_certificate_from_ca_is_required(secure: Secure, tmp_path: Path) -> None:
    with secure.channel(secure.authority.issue("client")) as channel:
        echo(channel)
    for files in (None, Authority(tmp_path / "strange").issue("stranger")):
        with secure.channel(files) as channel, pytest.raises(grpc.RpcError) as caught:
            echo(channel)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("secure", [False], ids=["one-sided"], indirect=True)
def test_a_client_without_h2_in_alpn_is_refused(secure: Secure) -> None:
    address = ("127.0.0.1", secure.port.number)
    with Conversation(address, secure.context("http/1.1", "h2")) as conversation:
        conversation.open()
        conversation.ping()
    with pytest.raises((OSError, Unexpected)):
        with Conversation(address, secure.context("http/1.1")) as conversation:
            conversation.open()
            conversation.ping()
    with grpc.insecure_channel(secure.port.address) as channel, pytest.raises(grpc.RpcError):
        echo(channel)


@pytest.mark.parametrize("secure", [False], ids=["one-sided"], indirect=True)
def test_certificates_are_renewed_under_load(secure: Secure) -> None:
    done = threading.Event()

    def presented() -> str:
        return ssl.get_server_certificate(("127.0.0.1", secure.port.number))

    def call(new: bool) -> int:
        """Call on one connection, or on a new one each time."""
        calls = 0
        channel = secure.channel()
        while not done.is_set():
            echo(channel)
            calls += 1
            if new:
                channel.close()
                channel = secure.channel()
        channel.close()
        return calls

    first = presented()
    with ThreadPoolExecutor(4) as pool:
        callers = [pool.submit(call, number % 2 == 1) for number in range(4)]
        try:
            renewed = secure.authority.issue("renewed")
            for option, file in secure.files.items():
                os.replace(renewed[option], file)
            eventually(lambda: presented() != first, 20)
        finally:
            done.set()
        assert all(caller.result() > 0 for caller in callers)


# Large and small


def test_small_calls_continue_during_large_uploads(engine: str) -> None:
    size = 16 * 2**20
    done = threading.Event()
    with serving(Interop(), engine, **{"grpc.max_receive_message_length": size}) as port:
        options = [("grpc.max_receive_message_length", size), ("grpc.use_local_subchannel_pool", 1)]

        def send() -> int:
            calls = 0
            with grpc.insecure_channel(port.address, options) as channel:
                unary = channel.unary_unary(f"/{SERVICE}/Unary")
                while not (done.is_set() and calls):
                    assert len(unary(message(size, sizes=[size]), timeout=60)) == size
                    calls += 1
            return calls

        with ThreadPoolExecutor(2) as pool, grpc.insecure_channel(port.address) as channel:
            sending = [pool.submit(send) for _ in range(2)]
            try:
                for _ in range(20):
                    echo(channel)
            finally:
                done.set()
            assert all(each.result() for each in sending)


@pytest.fixture
def blocked_port(engine: str) -> Iterator[tuple[str, int]]:
    with serving(Interop(), engine) as port:
        yield ("127.0.0.1", port.number)


def test_stalled_reader_uses_bounded_memory_and_blocks_no_other(
    blocked_port: tuple[str, int],
) -> None:
    """Its responses wait in its own connection, and calls of others are served."""
    with socket.create_connection(blocked_port) as silent:
        silent.settimeout(5)
        silent.sendall(wire.PREFACE + wire.settings((wire.INITIAL_WINDOW_SIZE, 2**20)))
        silent.sendall(wire.window_update(0, 2**30))
        for stream in range(1, 40, 2):
            silent.sendall(call_of(f"/{SERVICE}/Output", message(sizes=[2**20] * 100), stream))
        with grpc.insecure_channel("{}:{}".format(*blocked_port)) as channel:
            for number in range(100):
                unary = channel.unary_unary(f"/{SERVICE}/Unary")
                assert len(unary(message(sizes=[number]), timeout=20)) == number


def test_http_1_client_is_told_the_protocol(serve: Serve) -> None:
    answer = httpx.get(f"http://{serve().grpc}/v2/health/ready", trust_env=False)
    assert (answer.status_code, answer.text) == (505, "This port speaks HTTP/2 only.\n")
