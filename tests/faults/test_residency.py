"""Models that come with a call and leave when memory is short, and memory that runs out in a worker."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, fp32, text, write_model

MB = 10**6

CODE = """
import asyncio
import os

from inferstream import MLModel
from inferstream.types import InferenceRequest, InferenceResponse, ResponseOutput


class Heavy(MLModel):
    async def load(self) -> bool:
        self.ballast = b"x" * self.settings.parameters.extra["megabytes"] * 1_000_000
        self.calls = 0
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        mode = getattr(payload.parameters, "mode", None)
        self.calls += 1
        marker = os.environ["TEST_LOG"] + "." + self.name
        if mode == "always" or (mode == "once" and not os.path.exists(marker)):
            open(marker, "w").close()
            raise MemoryError("no room for the batch")
        if mode == "device" and not os.path.exists(marker):
            open(marker, "w").close()
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        output = ResponseOutput(name="pid", shape=[1], datatype="INT64", data=[os.getpid()])
        return InferenceResponse(model_name=self.name, outputs=[output])

    async def unload(self) -> bool:
        if self.name == "stuck":
            await asyncio.Event().wait()
        return True

    async def predict_stream(self, payloads):
        async for payload in payloads:
            for _ in range(3):
                yield await self.predict(payload)
"""


def pss(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def start(models: dict[str, dict], **settings) -> Running:
        folder = tmp_path / "models"
        for name, its in models.items():
            size = its.pop("megabytes", 1)
            parameters = {"extra": {"megabytes": size}}
            write_model(folder, name, "heavy.Heavy", CODE, name=name, parameters=parameters, **its)
        (folder / "settings.json").write_text(json.dumps(settings))
        running.append(Running(folder))
        return running[-1]

    yield start
    for server in running:
        server.stop()


def reasons(server: Running) -> dict[str, str]:
    index = httpx.post(f"{server.url}/v2/repository/index", json={}, timeout=20).json()
    assert {each["state"] for each in index} == {"READY"}
    return {each["name"]: each["reason"] for each in index}


def pid_of(response: httpx.Response) -> int:
    assert response.status_code == 200, response.text
    return response.json()["outputs"][0]["data"][0]


class Sampled:
    """The largest sum of the workers' memory while it runs, by a reader of its own."""

    def __init__(self, server: Running) -> None:
        self.largest = 0
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def _sample(self) -> None:
        while not self._over.wait(0.02):
            self.largest = max(self.largest, sum(map(pss, self._server.workers())))

    def __enter__(self) -> "Sampled":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_twelve_models_serve_under_a_limit_for_four(serve) -> None:
    server = serve({f"m{i}": {"megabytes": 60, "load": "demand"} for i in range(12)}, max_memory="600MB")
    assert reasons(server) == dict.fromkeys([f"m{i}" for i in range(12)], "the first call loads it")
    choice = random.Random(29)
    weights = [1 / (rank + 1) for rank in range(12)]
    calls = [f"m{choice.choices(range(12), weights)[0]}" for _ in range(60)]
    with Sampled(server) as memory, ThreadPoolExecutor(3) as pool, httpx.Client(timeout=120) as client:
        url = f"{server.url}/v2/models"
        answers = list(pool.map(lambda name: client.post(f"{url}/{name}/infer", json=fp32([1.0])), calls))
    assert [answer.status_code for answer in answers] == [200] * len(calls)
    assert memory.largest <= 600 * MB
    loads = sum(server.metric("inferstream_model_loads_total", model=f"m{i}") for i in range(12))
    evictions = sum(server.metric("inferstream_model_evictions_total", model=f"m{i}") for i in range(12))
    assert loads > len(set(calls))
    assert evictions > 0
    assert server.metric("inferstream_workers_lost_total") == 0
    assert "in memory" in reasons(server)[calls[-1]]


def test_every_transport_waits_for_first_load(serve) -> None:
    names = ("rest", "sse", "rpc", "bidi", "first", "second", "metadata", "socket")
    server = serve({name: {"load": "demand"} for name in names})
    with httpx.Client(base_url=server.url, timeout=20) as client:
        assert client.get("/v2/health/ready").status_code == 200
        assert client.get("/v2/models/rest/ready").status_code == 200
        pid_of(client.post("/v2/models/rest/infer", json=fp32([1.0])))
        assert client.get("/v2/models/metadata").json()["name"] == "metadata"
        streamed = client.post("/v2/models/sse/infer_stream", json=fp32([1.0]))
        assert streamed.text.count("data:") == 3, streamed.text
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        tensor = ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1])
        tensor.contents.fp32_contents.append(1.0)
        request = ModelInferRequest(model_name="rpc", inputs=[tensor])
        assert stub.ModelInfer(request, timeout=20).model_name == "rpc"
        for dialect, asked in (("mlserver", ["bidi"]), ("triton", ["first", "second"])):
            requests = [ModelInferRequest(model_name=name, inputs=[tensor]) for name in asked]
            sent = (each.SerializeToString() for each in requests)
            stream = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
            answer = b"".join(stream(sent, metadata=(("x-stream-dialect", dialect),), timeout=60))
            assert all(name.encode() in answer for name in asked), answer
            assert b"Model" not in answer, "an error names it so"
    from websockets.sync.client import connect

    with connect(f"ws://127.0.0.1:{server.http_port}/v2/models/socket/stream", max_size=None) as socket:
        socket.send(json.dumps({"id": "a", **fp32([1.0])}))
        assert json.loads(socket.recv(timeout=20))["model_name"] == "socket"


def test_deadline_expires_during_load(serve) -> None:
    server = serve({"m": {"load": "demand"}})
    late = server.infer("m", fp32([1.0]), headers={"x-request-timeout": "0.001"})
    assert late.status_code == 504, late.text
    eventually(lambda: server.infer("m", fp32([1.0])).status_code == 200, 20)


def test_oversized_model_is_refused_with_reason(serve) -> None:
    server = serve({"large": {"megabytes": 300, "load": "demand"}}, max_memory="200MB")
    for _ in range(2):
        refused = server.infer("large", fp32([1.0]))
        assert refused.status_code == 503, refused.text
        assert refused.headers["retry-after"] == "1"
        assert "Model large needs" in refused.json()["error"]
        assert "200 MB" in refused.json()["error"]


def test_idle_model_is_evicted_and_pinned_one_stays(serve) -> None:
    server = serve({"idle": {}, "kept": {"pinned": True}}, idle_unload=0.5)
    first = pid_of(server.infer("idle", fp32([1.0])))
    eventually(lambda: reasons(server)["idle"] == "the next call loads it", 20)
    eventually(lambda: not Path(f"/proc/{first}").exists(), 20)
    assert "in memory" in reasons(server)["kept"]
    assert pid_of(server.infer("idle", fp32([1.0]))) != first


def test_hung_unload_reserves_no_memory(serve) -> None:
    server = serve({"stuck": {}}, idle_unload=0.5, parallel_workers_timeout=1)
    first = pid_of(server.infer("stuck", fp32([1.0])))
    eventually(lambda: reasons(server)["stuck"] == "the next call loads it", 20)
    assert pid_of(server.infer("stuck", fp32([1.0]))) != first


@pytest.mark.parametrize("mode", ["once", "device"])
@pytest.mark.parametrize("settings", [{"idle_unload": 600}, {"max_memory": "2GB"}])
def test_out_of_memory_call_is_retried_once_in_new_worker(serve, mode: str, settings: dict) -> None:
    server = serve({"m": {}, "other": {}}, **settings)
    before = pid_of(server.infer("m", text()))
    assert pid_of(server.infer("m", text(parameters={"mode": mode}))) != before
    assert server.metric("inferstream_calls_retried_total") == 1
    pid_of(server.infer("other", text()))


def test_second_out_of_memory_is_a_typed_error(serve) -> None:
    server = serve({"m": {}}, max_memory="2GB")
    failed = server.infer("m", text(id="a", parameters={"mode": "always"}))
    assert failed.status_code == 503
    assert failed.headers["retry-after"] == "1"
    assert failed.json()["error"] == "Model m ran out of memory on request a."
    eventually(lambda: server.infer("m", text()).status_code == 200, 20)


def test_spare_worker_loads_next_model(serve) -> None:
    server = serve({"m": {"load": "demand"}}, spare_workers=1)
    spare = eventually(server.workers, 20)
    assert [pid_of(server.infer("m", fp32([1.0])))] == spare
    eventually(lambda: len(server.workers()) == 2, 20)


def test_incompatible_front_end_settings_abort_startup(serve) -> None:
    with pytest.raises(AssertionError, match="need frontends 1"):
        serve({"m": {}}, max_memory="1GB", frontends=2)
