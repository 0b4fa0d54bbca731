"""More calls than a model can run: who waits, who is refused, who never runs, and what everybody else notices."""

import json
import os
import resource
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, fp32, write_model

CODE = """
import asyncio
import os
import time
from pathlib import Path

from inferstream import MLModel
from inferstream.types import InferenceResponse


def note(what):
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(what + "\\n")


def closed(payload):
    gate = payload.parameters.get("gate", "")
    return gate and not Path(f"{os.environ['TEST_LOG']}.{gate}").exists()


class Gated(MLModel):
    async def predict(self, payload):
        note(f"ran {payload.id}")
        while closed(payload):
            await asyncio.sleep(0.005)
        return InferenceResponse(model_name=self.name, outputs=[])


class Blocking(MLModel):
    def predict(self, payload):
        note(f"ran {payload.id}")
        while closed(payload):
            time.sleep(0.005)
        return InferenceResponse(model_name=self.name, outputs=[])
"""

MODELS: dict[str, tuple[str, dict]] = {
    "gated": ("Gated", {"max_concurrency": 1, "max_queue": 8}),
    "low": ("Gated", {"max_concurrency": 1, "default_priority": 9}),
    "hot": ("Blocking", {"max_queue": 4, "threads": 2}),
    "other": ("Blocking", {"max_concurrency": 1, "max_queue": 1}),
    "batched": ("Gated", {"max_concurrency": 1, "max_queue": 4, "max_batch_size": 2, "max_batch_time": 30}),
}


@pytest.fixture(scope="module")
def loaded(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("overload") / "models"
    for name, (implementation, settings) in MODELS.items():
        write_model(folder, name, f"gated.{implementation}", CODE, name=name, **settings)
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


class Crowd:
    """Calls to one model that stand behind one another until the gate opens."""

    def __init__(self, server: Running, model: str, gate: str, running: int = 1) -> None:
        self.server, self.model, self.gate, self.running = server, model, gate, running
        self._pool = ThreadPoolExecutor(32)
        self._count = 0
        for i in range(running):
            self.join(f"first {i}")
        eventually(lambda: len(self.ran) == running, 10)

    @property
    def ran(self) -> list[str]:
        prefix = f"ran {self.gate} "
        lines = self.server.log.read_text().splitlines()
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]

    @property
    def waiting(self) -> float:
        return self.server.metric("inferstream_queue_depth", model=self.model)

    def dropped(self, reason: str) -> float:
        return self.server.metric("inferstream_queue_dropped_total", model=self.model, reason=reason)

    def request(self, name: str, **parameters) -> dict:
        return fp32([1.0], id=f"{self.gate} {name}", parameters={"gate": self.gate, **parameters})

    def ask(self, name: str, headers: dict | None = None, **parameters) -> httpx.Response:
        return self.server.infer(self.model, self.request(name, **parameters), headers=headers or {})

    def rpc(self, name: str) -> ModelInferRequest:
        message = ModelInferRequest(model_name=self.model, id=f"{self.gate} {name}")
        message.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.0)
        message.parameters["gate"].string_param = self.gate
        return message

    def join(self, name: str, headers: dict | None = None, **parameters) -> Future:
        """Ask, and return when the call runs or waits in the queue."""
        return self.after(lambda: self.ask(name, headers, **parameters))

    def after(self, ask: Callable[[], object]) -> Future:
        asked = self._pool.submit(ask)
        self._count += 1
        eventually(lambda: len(self.ran) + self.waiting >= self._count, 10)
        return asked

    def open(self) -> None:
        Path(f"{self.server.log}.{self.gate}").touch()


@pytest.fixture
def stub(loaded: Running) -> Iterator[GRPCInferenceServiceStub]:
    with grpc.insecure_channel(loaded.grpc) as channel:
        yield GRPCInferenceServiceStub(channel)


def test_a_full_queue_refuses_over_every_transport(
    loaded: Running, stub: GRPCInferenceServiceStub
) -> None:  # 148
    crowd = Crowd(loaded, "gated", "full")
    full = crowd.dropped("full")
    waiting = [crowd.join(f"waits {i}") for i in range(8)]
    for _ in range(3):
        refused = crowd.ask("refused", priority=1)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert "8 calls are waiting" in refused.json()["error"]
        with pytest.raises(grpc.RpcError) as error:
            stub.ModelInfer(crowd.rpc("refused"), timeout=10)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert dict(error.value.trailing_metadata())["retry-after"] == "1"
    event = loaded.infer("gated", crowd.request("refused"), "infer_stream")
    assert event.status_code == 429
    assert crowd.dropped("full") == full + 7
    crowd.open()
    assert {future.result().status_code for future in waiting} == {200}
    assert len(crowd.ran) == 9
    assert "refused" not in crowd.ran


def test_full_queue_refuses_before_reading_body(loaded: Running) -> None:
    crowd = Crowd(loaded, "gated", "unread")
    waiting = [crowd.join(f"waits {i}") for i in range(8)]
    refused = loaded.metric("inferstream_calls_total", model="gated", end="overloaded")
    dropped = crowd.dropped("full")
    url = f"{loaded.url}/v2/models/gated/infer"
    assert httpx.post(url, content=b"{" * 100_000, timeout=20).status_code == 429
    assert httpx.post(url, content=b"{" * 5_000_000, timeout=20).status_code == 429
    assert loaded.metric("inferstream_calls_total", model="gated", end="overloaded") == refused + 2
    assert crowd.dropped("full") == dropped + 2
    crowd.open()
    assert {future.result().status_code for future in waiting} == {200}
    assert httpx.post(url, content=b"{" * 100_000, timeout=20).status_code == 400


def test_urgent_calls_run_first(loaded: Running, stub: GRPCInferenceServiceStub) -> None:  # 150
    crowd = Crowd(loaded, "gated", "urgent")
    urgent = [("x-request-priority", "1")]
    waiting = [
        crowd.join("default"),
        crowd.join("lowest", priority=900),
        crowd.join("header", {"X-Request-Priority": "3"}),
        crowd.join("parameter", {"X-Request-Priority": "9"}, priority=2),
        crowd.after(lambda: stub.ModelInfer(crowd.rpc("metadata"), timeout=20, metadata=urgent)),
        crowd.join("zero", priority=0),
    ]
    crowd.open()
    for future in waiting:
        future.result()
    assert crowd.ran == ["first 0", "metadata", "parameter", "header", "default", "zero", "lowest"]


def test_model_has_default_priority(loaded: Running) -> None:
    crowd = Crowd(loaded, "low", "default")
    waiting = [crowd.join("default"), crowd.join("eight", priority=8), crowd.join("nine", priority=9)]
    crowd.open()
    for future in waiting:
        future.result()
    assert crowd.ran == ["first 0", "eight", "default", "nine"]


@pytest.mark.parametrize("said", ["-1", "high", "1.5"])
def test_invalid_priority_is_refused(loaded: Running, stub, said: str) -> None:
    answer = loaded.infer("gated", fp32([1.0]), headers={"X-Request-Priority": said})
    assert answer.status_code == 400
    assert "X-Request-Priority" in answer.json()["error"]
    message = ModelInferRequest(model_name="gated")
    message.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.0)
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(message, timeout=10, metadata=[("x-request-priority", said)])
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "parameters", [{"priority": -1}, {"priority": "1"}, {"timeout": -1}, {"timeout": 0.5}]
)
def test_invalid_priority_parameters_are_refused(loaded: Running, parameters: dict) -> None:
    for action in ("infer", "infer_stream"):
        answer = loaded.infer("gated", fp32([1.0], parameters=parameters), action)
        assert answer.status_code == 400
        assert next(iter(parameters)) in answer.json()["error"]


@pytest.mark.parametrize("model", ["gated", "batched"])
def test_expired_queued_call_never_runs(loaded: Running, stub, model: str) -> None:  # 70, 151
    crowd = Crowd(loaded, model, f"expires {model}")
    assert crowd.ask("header", {"X-Request-Timeout": "0.1"}).status_code == 504
    assert crowd.ask("parameter", timeout=100_000).status_code == 504
    with pytest.raises(grpc.RpcError) as error:
        stub.ModelInfer(crowd.rpc("rpc"), timeout=0.1)
    assert error.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    eventually(lambda: loaded.metric("inferstream_calls_in_progress", model=model) == 1)
    crowd.open()
    assert crowd.ask("after").status_code == 200
    assert crowd.ran == ["first 0", "after"]


@pytest.mark.parametrize("model", ["gated", "batched"])
def test_cancelled_queued_call_never_runs(loaded: Running, stub, model: str) -> None:  # 71, 152
    crowd = Crowd(loaded, model, f"cancels {model}")
    rpc = stub.ModelInfer.future(crowd.rpc("rpc"))
    eventually(lambda: loaded.metric("inferstream_calls_in_progress", model=model) == 2)
    rpc.cancel()
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{loaded.url}/v2/models/{model}/infer", json=crowd.request("rest"), timeout=0.2)
    eventually(lambda: loaded.metric("inferstream_calls_in_progress", model=model) == 1)
    crowd.open()
    assert crowd.ask("after").status_code == 200
    assert crowd.ran == ["first 0", "after"]


def test_batch_queue_is_bounded(loaded: Running) -> None:
    crowd = Crowd(loaded, "batched", "bounded")
    inside = loaded.metric("batch_request_queue_count", model_name="batched")
    with ThreadPoolExecutor(16) as pool:
        gathering = [pool.submit(crowd.ask, f"gathers {i}") for i in range(3)]
        eventually(lambda: loaded.metric("batch_request_queue_count", model_name="batched") == inside + 3)
        waiting = [pool.submit(crowd.ask, f"waits {i}") for i in range(4)]
        eventually(lambda: crowd.waiting == 4)
        assert crowd.ask("refused").status_code == 429
        crowd.open()
        assert {future.result().status_code for future in [*gathering, *waiting]} == {200}


def test_busy_model_does_not_fill_other_queues_or_threads(loaded: Running, workers: int) -> None:  # 154
    slots = 2 * max(workers, 1)
    crowd = Crowd(loaded, "hot", "hot", running=slots)
    waiting = [crowd.join(f"waits {i}") for i in range(4)]
    for i in range(20):
        assert crowd.ask("refused").status_code == 429
        assert loaded.infer("other", fp32([1.0], id=f"other {i}")).status_code == 200
    assert len(crowd.ran) == slots
    assert loaded.metric("inferstream_queue_depth", model="other") == 0
    crowd.open()
    assert {future.result().status_code for future in waiting} == {200}


def test_health_and_metrics_work_under_overload(loaded: Running) -> None:  # 153
    crowd = Crowd(loaded, "gated", "health")
    waiting = [crowd.join(f"waits {i}") for i in range(8)]
    url, request = f"{loaded.url}/v2/models/gated/infer", crowd.request("refused")
    with httpx.Client(timeout=20) as client, ThreadPoolExecutor(8) as pool:
        flood = [pool.submit(client.post, url, json=request) for _ in range(200)]
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/gated/ready", "/metrics"):
            assert httpx.get(f"{loaded.url}{path}", timeout=5).status_code == 200
        with grpc.insecure_channel(loaded.grpc) as channel:
            check = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        assert check.status == health_pb2.HealthCheckResponse.SERVING
        assert {future.result().status_code for future in flood} == {429}
    crowd.open()
    assert {future.result().status_code for future in waiting} == {200}


def connections(server: Running, count: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", server.http_port), timeout=5) for _ in range(count)]


def limited(serve, tmp_path: Path, **settings) -> Running:
    folder = tmp_path / "models"
    write_model(folder, "gated", "gated.Gated", CODE, name="gated")
    (folder / "settings.json").write_text(json.dumps(settings))
    return serve(folder)


def test_connections_over_limit_are_refused_and_health_works(serve, tmp_path: Path) -> None:  # 156
    server = limited(serve, tmp_path, max_connections=4)
    held = connections(server, 4)
    with socket.create_connection(("127.0.0.1", server.http_port), timeout=5) as one_more:
        one_more.sendall(b"GET /v2/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert one_more.recv(65536).startswith(b"HTTP/1.1 503 ")
    assert httpx.get(f"{server.url}/v2/health/live").status_code == 200
    with grpc.insecure_channel(server.grpc) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
    assert check.status == health_pb2.HealthCheckResponse.SERVING
    assert httpx.get(f"http://127.0.0.1:{server.metrics_port}/metrics").status_code == 200
    for connection in held:
        connection.close()
    eventually(lambda: httpx.get(f"{server.url}/v2/health/live").status_code == 200)
    assert server.infer("gated", fp32([1.0])).status_code == 200


def test_server_recovers_from_file_descriptor_exhaustion(serve, tmp_path: Path) -> None:  # 157
    server = limited(serve, tmp_path)
    pid = server.process.pid
    taken = len(os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken + 8, taken + 8))
    held = connections(server, 40)
    eventually(lambda: len(os.listdir(f"/proc/{pid}/fd")) >= taken + 7)
    before = cpu(pid)
    with pytest.raises((httpx.TimeoutException, httpx.TransportError)):
        httpx.get(f"{server.url}/v2/health/live", timeout=2)
    assert cpu(pid) - before < 1.5, "it must not try again and again while it waits"
    for connection in held:
        connection.close()
    eventually(lambda: answered(server), 10)
    assert server.infer("gated", fp32([1.0])).status_code == 200
    assert server.process.poll() is None


def cpu(pid: int) -> float:
    """Seconds of processor time the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answered(server: Running) -> bool:
    try:
        return httpx.get(f"{server.url}/v2/health/live", timeout=2).status_code == 200
    except httpx.TransportError:
        return False
