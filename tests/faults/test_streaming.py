"""Streams that end early, fail, spin, block or have slow readers, over SSE, WebSocket and gRPC."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import grpc
import httpx
import pytest
from httpx_sse import connect_sse
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.engines import ENGINES, EVERY_ENGINE
from tests.serving import Running, eventually, text, write_model

KINDS = ("sse", "ws", "grpc")
TRANSPORTS = pytest.mark.parametrize(
    ("transport", "grpc_engine"),
    [("sse", ENGINES[0]), ("ws", ENGINES[0]), *(("grpc", engine) for engine in ENGINES)],
    indirect=["grpc_engine"],
    scope="session",
)

OPENED: list["Stream"] = []


@pytest.fixture(autouse=True)
def _close_streams() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


class Stream:
    """A stream over any transport: read some items, then leave."""

    def __init__(self, server: Running, transport: str, model: str, **parameters) -> None:
        self.id = parameters.pop("id")
        OPENED.append(self)
        if transport == "sse":
            self._open_sse(server, model, parameters)
        elif transport == "ws":
            self._open_ws(server, model, parameters)
        else:
            self._open_grpc(server, model, parameters)

    def _open_sse(self, server: Running, model: str, parameters: dict) -> None:
        client = httpx.Client(timeout=20)
        body = text(id=self.id, parameters=parameters)
        self.kept = context = connect_sse(
            client, "POST", f"{server.url}/v2/models/{model}/generate_stream", json=body
        )
        source = context.__enter__()
        self.status = source.response.status_code
        self.items: Iterator = (json.loads(event.data) for event in source.iter_sse())

        def close() -> None:
            # The connection goes with the response; the client alone would leave it open.
            source.response.close()
            client.close()

        self.close = close

    def _open_ws(self, server: Running, model: str, parameters: dict) -> None:
        url = f"{server.url.replace('http', 'ws', 1)}/v2/models/{model}/stream"
        self.kept = opening = connect(url, close_timeout=0.2)
        socket = opening.__enter__()
        socket.send(json.dumps(text(id=self.id, parameters=parameters)))
        self.items = _items(socket)
        self.close = socket.close

    def _open_grpc(self, server: Running, model: str, parameters: dict) -> None:
        channel = grpc.insecure_channel(server.grpc)
        message = ModelInferRequest(model_name=model, id=self.id)
        for name, value in parameters.items():
            kind = "double_param" if isinstance(value, float) else "int64_param"
            setattr(message.parameters[name], kind, value)
        call = GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([message]))
        self.items = iter(call)

        def close() -> None:
            call.cancel()
            channel.close()

        self.close = close


def _items(socket) -> Iterator[dict]:
    for message in socket:
        item = json.loads(message)
        if "error" not in item and not item["outputs"]:
            return
        yield item
        if "error" in item or item["parameters"]["triton_final_response"]:
            return


@TRANSPORTS
def test_items_arrive_immediately(server: Running, transport: str) -> None:
    stream = Stream(server, transport, "streaming", id=f"live-{transport}", items=3, delay=0.3)
    arrivals = []
    for _ in stream.items:
        arrivals.append(time.monotonic())
        if len(arrivals) == 1:
            assert not server.noted(f"finally live-{transport}")
    assert len(arrivals) == 3
    assert server.noted(f"finally live-{transport}")


@pytest.mark.parametrize("model", ["streaming", "spinning"])
@TRANSPORTS
def test_mid_stream_disconnect_runs_finally(server: Running, transport: str, model: str) -> None:
    name = f"left-{transport}-{model}"
    stream = Stream(server, transport, model, id=name, items=10**9, delay=0.01)
    for _ in range(3):
        next(stream.items)

    stream.close()

    eventually(lambda: server.noted(f"finally {name}"))
    server.probe()


@TRANSPORTS
def test_disconnect_before_first_item_runs_finally(server: Running, transport: str) -> None:
    name = f"early-{transport}"
    leave = threading.Event()

    def ask() -> None:
        if transport != "sse":
            stream = Stream(server, transport, "streaming", id=name, before=30)
            leave.wait(10)
            stream.close()
            return
        body = json.dumps(text(id=name, parameters={"before": 30})).encode()
        with socket.create_connection(("127.0.0.1", server.http_port)) as connection:
            connection.sendall(
                b"POST /v2/models/streaming/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                % (len(body), body)
            )
            leave.wait(10)

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: server.noted(f"start {name}"))
    leave.set()
    asking.join()

    eventually(lambda: server.noted(f"finally {name}"))


def test_disconnect_cancels_unary_call(server: Running) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{server.url}/v2/models/slow/infer", json=text(id="bye", parameters={"seconds": 60}), timeout=2
        )
    eventually(lambda: server.noted("finally bye"))


@TRANSPORTS
def test_busy_generator_does_not_block_event_loop(server: Running, transport: str) -> None:
    stream = Stream(server, transport, "spinning", id=f"spin-{transport}", items=10**9)
    next(stream.items)
    reading = threading.Thread(target=lambda: [None for _ in _until_error(stream.items)])
    reading.start()

    for _ in range(20):
        assert httpx.get(f"{server.url}/v2/health/live", timeout=10).status_code == 200

    stream.close()
    reading.join()
    eventually(lambda: server.noted(f"finally spin-{transport}"))


def _until_error(items: Iterator) -> Iterator:
    try:
        yield from items
    except (grpc.RpcError, httpx.HTTPError, ConnectionClosed, RuntimeError, ValueError, OSError):
        return


@TRANSPORTS
def test_blocking_generator_keeps_health_and_stops_at_next_yield(server: Running, transport: str) -> None:
    name = f"block-{transport}"
    stream = Stream(server, transport, "blocking-stream", id=name, items=10**6, delay=3)
    next(stream.items)

    for _ in range(10):
        assert httpx.get(f"{server.url}/v2/health/live", timeout=2.5).status_code == 200
    stream.close()

    eventually(lambda: server.noted(f"finally {name}"))


def test_blocking_predict_keeps_health(server: Running) -> None:
    calls = [
        threading.Thread(target=server.infer, args=("blocking", text(parameters={"seconds": 3})))
        for _ in range(8)
    ]
    for call in calls:
        call.start()
    for _ in range(10):
        assert httpx.get(f"{server.url}/v2/health/live", timeout=2.5).status_code == 200
    for call in calls:
        call.join()
    assert server.metric("blocked_seconds_count", model_name="blocking") >= 8


def test_error_at_first_item_is_a_status(server: Running) -> None:
    answer = server.infer("streaming", text(parameters={"fail_at": 0}), "generate_stream")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/json"
    assert "canary" not in answer.text


@pytest.mark.parametrize("option", ["fail_at", "bad_at"])
def test_mid_stream_error_is_typed_event_and_clean_end(server: Running, option: str) -> None:
    body = text(id="mid", parameters={option: 2, "items": 5})
    with httpx.Client(timeout=10) as client:
        url = f"{server.url}/v2/models/streaming/generate_stream"
        with connect_sse(client, "POST", url, json=body) as source:
            events = list(source.iter_sse())

    assert [event.event for event in events] == ["message", "message", "error"]
    last = json.loads(events[-1].data)
    assert last["id"] == "mid"
    assert last["code"] == "internal"
    assert "canary" not in last["error"]
    assert server.noted("finally mid")
    server.probe()


@pytest.mark.parametrize("option", ["fail_at", "bad_at"])
def test_mid_stream_error_is_message_and_keeps_websocket(server: Running, option: str) -> None:
    stream = Stream(server, "ws", "streaming", id="wmid", **{option: 2, "items": 5})
    *items, last = stream.items
    assert len(items) == 2
    assert (last["id"], last["code"]) == ("wmid", "internal")
    assert "canary" not in last["error"]
    server.probe()


@EVERY_ENGINE
def test_mid_stream_error_is_rpc_status(server: Running) -> None:
    stream = Stream(server, "grpc", "streaming", id="gmid", fail_at=2, items=5)
    received = []
    with pytest.raises(grpc.RpcError) as failure:
        for item in stream.items:
            received.append(item)
    assert len(received) == 2
    assert failure.value.code() is grpc.StatusCode.INTERNAL
    assert "canary" not in failure.value.details()


@TRANSPORTS
def test_slow_reader_backpressure_bounds_memory(server: Running, transport: str) -> None:
    name = f"slow-reader-{transport}"
    before = server.rss()
    stream = Stream(server, transport, "spinning", id=name, items=10**9, size=65536)
    next(stream.items)

    grown = 0
    until = time.monotonic() + 2
    while time.monotonic() < until:
        grown = max(grown, server.rss() - before)
        server.probe()
    stream.close()

    eventually(lambda: server.noted(f"finally {name}"))
    assert grown < 48 * 2**20
    line = next(line for line in server.log.read_text().splitlines() if line.startswith(f"finally {name}"))
    assert int(line.split()[-1]) < 2_000, "the model ran ahead of its reader"


@TRANSPORTS
def test_slow_readers_do_not_affect_fast_one(server: Running, transport: str) -> None:
    slow = [Stream(server, transport, "spinning", id=f"s{i}", items=10**9, size=65536) for i in range(20)]
    assert len(list(Stream(server, transport, "streaming", id="fast", items=200).items)) == 200
    with ThreadPoolExecutor(len(slow)) as pool:  # closing a WebSocket waits for the server
        for left in [pool.submit(stream.close) for stream in slow]:
            left.result()


@pytest.mark.parametrize("transport", ["sse", "ws"])
def test_model_that_ignores_cancellation_is_ended(server: Running, transport: str) -> None:
    stream = Stream(server, transport, "stubborn", id=f"stub-{transport}")
    next(stream.items)
    stream.close()
    eventually(lambda: server.noted(f"swallowed stub-{transport}"))
    eventually(lambda: server.metric("inferstream_calls_in_progress", model="stubborn") == 0)
    server.probe()


@TRANSPORTS
def test_raising_finally_is_logged(server: Running, transport: str) -> None:
    name = f"ending-{transport}"
    stream = Stream(server, transport, "bad-ending", id=name, slow=0)
    next(stream.items)

    stream.close()

    eventually(lambda: server.noted(f"ending {name}"))
    eventually(lambda: server.metric("inferstream_calls_in_progress", model="bad-ending") == 0)
    # The model fails in its cleanup if its client leaves while an item is being written.
    line = re.compile(rf"failed (on|while cleaning up) request {name}\n")
    eventually(lambda: line.search(server.text()))
    server.probe()


def test_slow_finally_is_logged_and_bounded_on_every_transport(server: Running) -> None:
    """All at the same time, because each lingers for seconds."""
    line = re.compile(
        "code is still running 5 s after its cancellation|cleanup of request lingering-.* is still running"
    )
    before = len(line.findall(server.text()))
    streams = [Stream(server, kind, "bad-ending", id=f"lingering-{kind}", slow=1) for kind in KINDS]
    for stream in streams:
        next(stream.items)

    for stream in streams:
        stream.close()
        eventually(partial(server.noted, f"ending {stream.id}"))

    eventually(lambda: server.metric("inferstream_calls_in_progress", model="bad-ending") == 0)
    eventually(lambda: len(line.findall(server.text())) >= before + len(streams))
    server.probe()


@pytest.mark.parametrize("transport", ["sse", "ws"])
def test_predict_only_model_streams_one_response(server: Running, transport: str) -> None:
    items = list(Stream(server, transport, "slow", id="single", seconds=0).items)
    assert [item["outputs"][0]["data"] for item in items] == [["slept"]]


def test_stream_only_model_infers_a_single_response(server: Running) -> None:
    assert server.infer("streaming", text(parameters={"items": 1})).json()["outputs"][0]["data"] == ["item 0"]
    answer = server.infer("streaming", text(parameters={"items": 2}))
    assert answer.status_code == 501
    assert "stream" in answer.json()["error"]


def test_empty_stream_is_empty_200(server: Running) -> None:
    answer = server.infer("streaming", text(parameters={"items": 0}), "generate_stream")
    assert answer.status_code == 200
    assert answer.content == b""


def test_time_limit_ends_queueing_and_streaming(server: Running) -> None:
    assert server.infer("impatient", text(parameters={"seconds": 5})).status_code == 504
    answer = server.infer(
        "impatient-stream", text(parameters={"items": 100, "delay": 0.05}), "generate_stream"
    )
    assert answer.status_code == 200
    assert '"code":"deadline_exceeded"' in answer.text
    late = server.infer(
        "slow", text(id="hdr", parameters={"seconds": 9}), headers={"X-Request-Timeout": "0.2"}
    )
    assert late.status_code == 504
    eventually(lambda: server.noted("finally hdr"))


def test_full_queue_refuses_at_once_and_cancelled_call_never_runs(server: Running) -> None:
    statuses: list[int] = []

    def ask(name: str) -> None:
        answer = server.infer("limited", text(id=name, parameters={"seconds": 1}))
        statuses.append(answer.status_code)

    first = threading.Thread(target=ask, args=("holds-the-slot",))
    first.start()
    eventually(lambda: server.noted("start holds-the-slot"))
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{server.url}/v2/models/limited/infer",
            json=text(id="leaves-the-queue", parameters={}),
            timeout=0.2,
        )
    eventually(lambda: server.metric("inferstream_calls_in_progress", model="limited") == 1)
    second = threading.Thread(target=ask, args=("is-next",))
    second.start()
    eventually(lambda: server.metric("inferstream_calls_in_progress", model="limited") == 2)
    refused = server.infer("limited", text(id="is-refused"))
    first.join()
    second.join()

    assert refused.status_code == 429
    assert refused.headers["retry-after"]
    assert statuses == [200, 200]
    assert not server.noted("start leaves-the-queue")
    assert not server.noted("start is-refused")


@EVERY_ENGINE
def test_many_idle_streams_are_cheap_and_end(server: Running) -> None:
    channel = grpc.insecure_channel(server.grpc)
    stub = GRPCInferenceServiceStub(channel)
    before = server.rss()
    calls = []
    for i in range(1000):
        message = ModelInferRequest(model_name="streaming", id=f"idle{i}")
        message.parameters["delay"].int64_param = 60
        calls.append(stub.ModelStreamInfer(iter([message])))
    for call in calls:
        next(iter(call))

    assert server.rss() - before < 1000 * 64 * 1024
    assert httpx.get(f"{server.url}/v2/health/live", timeout=10).status_code == 200

    channel.close()
    lines = lambda: sum(line.startswith("finally idle") for line in server.log.read_text().splitlines())  # noqa: E731
    eventually(lambda: lines() == 1000)


def test_many_idle_websockets_are_cheap_and_end(server: Running) -> None:
    before = server.rss()
    sockets = []
    for i in range(300):
        stream = Stream(server, "ws", "streaming", id=f"idlews{i}", delay=60)
        next(stream.items)
        sockets.append(stream)

    assert server.rss() - before < 300 * 64 * 1024
    assert httpx.get(f"{server.url}/v2/health/live", timeout=10).status_code == 200

    for stream in sockets:
        stream.close()
    lines = lambda: sum(line.startswith("finally idlews") for line in server.log.read_text().splitlines())  # noqa: E731
    eventually(lambda: lines() == 300)


@pytest.fixture(scope="module")
def impatient(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("impatient") / "models"
    write_model(folder, "streaming", "faulty_models.Streaming")
    write_model(folder, "spinning", "faulty_models.Spinning")
    settings = {"sse_heartbeat": 0.2, "stream_stall_timeout": 0.5, "parallel_workers": workers}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def test_an_idle_stream_carries_heartbeats(impatient: Running) -> None:
    answer = impatient.infer("streaming", text(parameters={"items": 2, "delay": 0.7}), "generate_stream")

    assert answer.text.count(": \n\n") >= 2
    assert answer.text.count("data: ") == 2


def test_stalled_reader_is_dropped(impatient: Running) -> None:
    stream = Stream(impatient, "sse", "spinning", id="stall", size=65536)
    next(stream.items)

    eventually(lambda: impatient.noted("finally stall"))


def test_newlines_and_multibyte_characters_are_preserved(server: Running) -> None:
    said = "a\r\n\n\r\ndata: no\u2028\u0085é🎉\n"
    url = f"{server.url}/v2/models/echo/infer_stream"
    with httpx.Client(timeout=20) as client, connect_sse(client, "POST", url, json=text(said)) as source:
        [event] = source.iter_sse()
    assert json.loads(event.data)["outputs"][0]["data"] == [said]
