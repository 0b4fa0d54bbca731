"""Two front ends at the same ports are one server to whoever asks it."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from httpx_sse import connect_sse
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import (
    ModelInferRequest,
    RepositoryIndexRequest,
    RepositoryModelLoadRequest,
    RepositoryModelUnloadRequest,
)
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.frontends import MANY, clients, front_ends, spread, two
from tests.serving import Running, fp32, text, write_model

ONLY_FIRST = """
import sys
from inferstream import MLModel
from inferstream.types import InferenceResponse


class Model(MLModel):
    async def load(self):
        if "inferstream.server.frontends.front_end" in sys.orig_argv:
            raise RuntimeError("not in a second process")
        return True

    async def predict(self, payload):
        return InferenceResponse(model_name=self.name, outputs=[])
"""


@pytest.fixture(scope="module")
def server(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("two") / "models"
    for name, model in (("echo", "Echo"), ("streaming", "Streaming"), ("both", "Both")):
        write_model(folder, name, f"faulty_models.{model}", name=name)
    write_model(
        folder,
        "narrow",
        "faulty_models.Slow",
        name="narrow",
        max_concurrency=2,
        max_queue=2,
        parallel_workers=0,
    )
    running = Running(two(folder, parallel_workers=workers))
    yield running
    assert running.stop() == 0, running.text()


def calls(server: Running, model: str) -> float:
    return server.metric("model_infer_request_success_total", model=model)


def own_channel(server: Running, i: int) -> grpc.Channel:
    options = [("grpc.use_local_subchannel_pool", 1), ("test.number", i)]
    return grpc.insecure_channel(server.grpc, options)


def test_banner_shows_front_end_count(server: Running) -> None:
    assert "2 front ends" in server.text()
    assert len(front_ends(server)) == 1
    assert server.metric("inferstream_frontends") == 2


def test_rest_and_metrics_behave_as_one_server(server: Running) -> None:
    before = calls(server, "echo")
    with clients(server) as opened:
        for i, client in enumerate(opened):
            answer = client.post("/v2/models/echo/infer", json=fp32([float(i)], id=f"rest {i}"))
            assert answer.json()["outputs"][0]["data"] == [float(i)]
            assert answer.json()["id"] == f"rest {i}"
        scraped = {
            client.get("/metrics").text.count("model_infer_request_success_total{") for client in opened
        }
        assert scraped == {4}  # each series once, wherever it is read
        assert {client.get("/v2/health/ready").status_code for client in opened} == {200}
    assert calls(server, "echo") == before + MANY
    port = f"http://127.0.0.1:{server.metrics_port}/metrics"
    wanted = f'model_infer_request_success_total{{model="echo",version=""}} {before + MANY}'
    assert wanted in httpx.get(port).text.splitlines()


def test_streams_come_from_both_front_ends(server: Running) -> None:
    before = calls(server, "streaming")
    body = text(parameters={"items": 3})
    with clients(server) as opened:
        for client in opened:
            with connect_sse(client, "POST", "/v2/models/streaming/generate_stream", json=body) as source:
                items = [json.loads(event.data) for event in source.iter_sse() if event.data.startswith("{")]
            assert [item["outputs"][0]["data"] for item in items] == [[f"item {i}"] for i in range(3)]
    assert calls(server, "streaming") == before + MANY


def test_websockets_are_served_by_both(server: Running) -> None:
    url = f"ws://127.0.0.1:{server.http_port}/v2/models/streaming/stream"
    with ExitStack() as stack:
        sockets = [stack.enter_context(connect(url, open_timeout=20)) for _ in range(MANY)]
        assert all(spread(server, server.http_port))
        for i, socket in enumerate(sockets):
            socket.send(json.dumps(text(id=f"ws {i}", parameters={"items": 2})))
            said = [json.loads(socket.recv(timeout=10)) for _ in range(2)]
            assert [answer["id"] for answer in said] == [f"ws {i}"] * 2
            assert [answer["outputs"][0]["data"] for answer in said] == [["item 0"], ["item 1"]]


def test_grpc_is_served_by_both(server: Running) -> None:
    with ExitStack() as stack:
        channels = [stack.enter_context(own_channel(server, i)) for i in range(MANY)]
        before = calls(server, "both")
        for i, channel in enumerate(channels):
            request = ModelInferRequest(model_name="both", id=f"grpc {i}")
            tensor = request.inputs.add(name="text", datatype="BYTES", shape=[1])
            tensor.contents.bytes_contents.append(b"hi")
            stub = GRPCInferenceServiceStub(channel)
            assert stub.ModelInfer(request, timeout=20).id == f"grpc {i}"
            answers = list(stub.ModelStreamInfer(iter([request]), timeout=20))
            assert {answer.id for answer in answers} == {f"grpc {i}"}
        assert all(spread(server, server.grpc_port))
        assert calls(server, "both") == before + 2 * MANY


def test_triton_client_sends_large_tensors_through_both(server: Running) -> None:
    values = np.arange(100_000, dtype=np.float32)
    for i in range(8):
        with triton.InferenceServerClient(server.grpc, channel_args=[("test.number", i)]) as client:
            tensor = triton.InferInput("x", values.shape, "FP32")
            tensor.set_data_from_numpy(values)
            np.testing.assert_array_equal(client.infer("echo", [tensor]).as_numpy("x"), values)


def test_loads_and_unloads_apply_to_all_front_ends(server: Running) -> None:
    write_model(server.folder, "late", "faulty_models.Echo", name="late")
    with clients(server) as opened, own_channel(server, 99) as channel:
        stub = GRPCInferenceServiceStub(channel)
        for i, client in enumerate(opened[:6]):
            assert {c.get("/v2/models/late").status_code for c in opened} == {404}
            if i % 2:
                client.post("/v2/repository/models/late/load").raise_for_status()
            else:
                stub.RepositoryModelLoad(RepositoryModelLoadRequest(model_name="late"), timeout=20)
            answers = [c.post("/v2/models/late/infer", json=fp32([1.0])) for c in opened]
            assert {answer.status_code for answer in answers} == {200}
            indexed = {c.post("/v2/repository/index").text for c in opened}
            assert len(indexed) == 1
            assert "late" in {model.name for model in stub.RepositoryIndex(RepositoryIndexRequest()).models}
            if i % 2:
                stub.RepositoryModelUnload(RepositoryModelUnloadRequest(model_name="late"), timeout=20)
            else:
                client.post("/v2/repository/models/late/unload").raise_for_status()


def test_partial_load_failure_is_rolled_back(server: Running) -> None:
    write_model(server.folder, "first", "first.Model", ONLY_FIRST, name="first", parallel_workers=0)
    with clients(server) as opened:
        for client in opened[:6]:
            answer = client.post("/v2/repository/models/first/load")
            assert answer.status_code == 500
            assert "not in a second process" in answer.json()["error"]
            assert {c.get("/v2/models/first/ready").status_code for c in opened} == {503}
        assert {c.get("/v2/health/ready").status_code for c in opened} == {200}
    assert "RuntimeError: not in a second process" in server.text()
    assert (
        server.text().count('raise RuntimeError("not in a second process")') == 6
    )  # a traceback for each attempt


def test_old_version_keeps_serving_when_new_one_fails_in_one_front_end(server: Running) -> None:
    tame = ONLY_FIRST.replace("if ", "if False and ")
    folder = write_model(server.folder, "turning", "turning.Model", tame, name="turning", parallel_workers=0)
    with clients(server) as opened:
        opened[0].post("/v2/repository/models/turning/load").raise_for_status()
        (folder / "turning.py").write_text(ONLY_FIRST)
        assert opened[0].post("/v2/repository/models/turning/load").status_code == 500
        answers = [c.post("/v2/models/turning/infer", json=fp32([1.0])) for c in opened]
        assert {answer.status_code for answer in answers} == {200}
        opened[0].post("/v2/repository/models/turning/unload").raise_for_status()


def test_limit_applies_across_front_ends(server: Running) -> None:
    body = text(parameters={"seconds": 0.6})
    with clients(server) as opened, ThreadPoolExecutor(MANY) as pool:
        post = lambda client: client.post("/v2/models/narrow/infer", json=body)  # noqa: E731
        statuses = [answer.status_code for answer in pool.map(post, opened)]
    assert statuses.count(200) == 4  # in each front end one that runs and one that waits
    assert statuses.count(429) == MANY - 4


@pytest.mark.parametrize("frontends", [1, 2])
@pytest.mark.parametrize("port", ["http", "grpc"])
def test_ports_belong_to_one_server(server: Running, tmp_path: Path, frontends: int, port: str) -> None:
    write_model(tmp_path / "other", "echo", "faulty_models.Echo")
    taken = getattr(server, f"{port}_port")
    flags = (f"--{port}-port", str(taken), "--frontends", str(frontends))
    second = Running(tmp_path / "other", *flags, wait=False)
    assert second.process.wait(20) == 1
    assert second.text().splitlines() == [
        f"error: {'REST' if port == 'http' else 'gRPC'} port {taken} on 127.0.0.1 is already in use",
        f"hint: choose another one with {'--port' if port == 'http' else '--grpc-port'}",
    ]
