"""What everybody else gets while a model loads or unloads, and its code blocks."""

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from httpx_sse import connect_sse

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ServerLiveRequest, ServerReadyRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, fp32, text, write_model

CODE = """
import asyncio
import os
import time
from pathlib import Path

from inferstream import MLModel
from inferstream.types import InferenceResponse


def block(what):
    log = os.environ["TEST_LOG"]
    with open(log, "a") as file:
        file.write(what + "\\n")
    while Path(log + ".closed").exists():
        time.sleep(0.01)


class Blocking(MLModel):
    def load(self):
        block(f"loads {self.name}")
        return True

    def unload(self):
        block(f"unloads {self.name}")
        return True

    def predict(self, payload):
        return InferenceResponse(model_name=self.name, outputs=[])


class AsyncBlocking(Blocking):
    async def load(self):
        block(f"loads {self.name}")
        return True

    async def unload(self):
        block(f"unloads {self.name}")
        return True


class Awaiting(AsyncBlocking):
    async def load(self):
        await asyncio.sleep(0)
        return await super().load()

    async def predict(self, payload):
        await asyncio.sleep(0)
        return super().predict(payload)
"""

PATIENCE = 5
"""Seconds that a request may take which nothing should hold up; the model blocks for as long as the test likes."""


def write_models(folder: Path, kind: str, *names: str) -> Path:
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "streaming", "faulty_models.Streaming")
    for name in names:
        write_model(folder, name, f"blocking.{kind}", CODE)
    return folder


@pytest.fixture(scope="module", params=["Blocking", "AsyncBlocking", "Awaiting"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def served(workers: int, kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that reloads, and has a model of this kind for each test."""
    folder = write_models(tmp_path_factory.mktemp("loading") / "models", kind, "load", "unload", "changed")
    running = Running(folder, "--reload", INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Models that are asked to load or unload meanwhile do not return from it before this has ended."""
    gate = folder.parent / f"{folder.name}.log.closed"
    gate.touch()
    try:
        yield
    finally:
        gate.unlink()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def status(server: Running, path: str) -> int:
    return httpx.get(f"{server.url}/v2/{path}", timeout=PATIENCE).status_code


def others_go_on(server: Running) -> None:
    """Liveness and another model answer, over REST and gRPC, and a stream that has begun goes on."""
    assert status(server, "health/live") == 200
    asked = f"{server.url}/v2/models/echo/infer"
    assert httpx.post(asked, json=fp32([1.0]), timeout=PATIENCE).status_code == 200
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(ServerLiveRequest(), timeout=PATIENCE).live
        stub.ModelInfer(ModelInferRequest(model_name="echo"), timeout=PATIENCE)


@contextmanager
def streaming(server: Running) -> Iterator[Callable[[], object]]:
    """A stream that has begun; gives what reads its next item."""
    url = f"{server.url}/v2/models/streaming/infer_stream"
    body = text(parameters={"items": 10**6, "delay": 0.01})
    with httpx.Client(timeout=PATIENCE) as client, connect_sse(client, "POST", url, json=body) as source:
        events = source.iter_sse()

        def read() -> object:
            return json.loads(next(events).data)["outputs"]

        assert read()
        yield read


def test_server_is_live_but_not_ready_during_blocking_load(
    serve: Callable[..., Running], tmp_path: Path, kind: str
) -> None:
    folder = write_models(tmp_path / "models", kind, "slow")
    http, rpc, metrics = free_port(), free_port(), free_port()
    ports = {"--http-port": http, "--grpc-port": rpc, "--metrics-port": metrics}
    with closed(folder):
        server = serve(folder, *(str(part) for pair in ports.items() for part in pair), wait=False)
        server.url, server.grpc = f"http://127.0.0.1:{http}", f"127.0.0.1:{rpc}"
        eventually(lambda: server.noted("loads"), 30)
        assert status(server, "health/live") == 200
        assert status(server, "health/ready") == 503
        assert status(server, "models/slow/ready") == 503
        for path, expected in (("live", 200), ("ready", 503)):
            probed = httpx.get(f"http://127.0.0.1:{metrics}/v2/health/{path}", timeout=PATIENCE)
            assert probed.status_code == expected, "the metrics port has health too"
        refused = httpx.post(f"{server.url}/v2/models/slow/infer", json=fp32([1.0]), timeout=PATIENCE)
        assert refused.status_code == 503
        assert "slow" in refused.json()["error"]
        eventually(lambda: status(server, "models/echo/ready") == 200, 10)
        others_go_on(server)
        with grpc.insecure_channel(server.grpc) as channel:
            stub = GRPCInferenceServiceStub(channel)
            assert not stub.ServerReady(ServerReadyRequest(), timeout=PATIENCE).ready
            with pytest.raises(grpc.RpcError) as error:
                stub.ModelInfer(ModelInferRequest(model_name="slow"), timeout=PATIENCE)
            assert error.value.code() is grpc.StatusCode.UNAVAILABLE
            health = health_pb2_grpc.HealthStub(channel)
            checked = health.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
            assert checked.status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert not server.listens()
    eventually(server.listens, 20)
    assert status(server, "health/ready") == 200
    assert server.infer("slow", fp32([1.0])).status_code == 200


@pytest.mark.parametrize("action", ["load", "unload"])
def test_calls_continue_during_blocking_repository_load(served: Running, action: str) -> None:
    url = f"{served.url}/v2/repository/models/{action}/{action}"
    line = f"{action}s {action}\n"
    before = served.log.read_text().count(line)
    with ThreadPoolExecutor(1) as pool, streaming(served) as read:
        with closed(served.folder):
            changing = pool.submit(httpx.post, url, timeout=30)
            eventually(lambda: served.log.read_text().count(line) > before, 20)
            others_go_on(served)
            for _ in range(100):
                assert read()
            if action == "load":
                assert status(served, "health/ready") == 200
                assert served.infer("load", fp32([1.0])).status_code == 200  # the one that is there
            assert not changing.done()
        assert changing.result().status_code == 200
        assert read()


def test_calls_continue_during_blocking_reload(
    served: Running,
) -> None:
    loaded = served.log.read_text().count("loads changed\n")
    with streaming(served) as read:
        with closed(served.folder):

            def loads() -> bool:
                (served.folder / "changed" / "artefact").touch()
                return served.log.read_text().count("loads changed\n") > loaded

            eventually(loads, 20)
            others_go_on(served)
            assert status(served, "health/ready") == 200
            for _ in range(100):
                assert read()
        assert read()
