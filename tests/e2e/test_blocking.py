"""Models as MLServer's users write them: `async def` that blocks, over every transport, with and without workers."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import httpx_sse
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelMetadataRequest, ServerLiveRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, fp32, write_model

CODE = """
import asyncio
import os
import threading
import time
from pathlib import Path

import numpy as np
from mlserver import MLModel
from mlserver.codecs import decode_args
from mlserver.handlers import custom_handler
from mlserver.types import InferenceResponse, ResponseOutput
from mlserver.utils import get_model_uri

log = os.environ["TEST_LOG"]


def note(line):
    with open(log, "a") as file:
        file.write(line + "\\n")


def block(gate):
    note(f"enter {gate}")
    while not Path(f"{log}.{gate}").exists():
        time.sleep(0.002)
    note(f"leave {gate}")


def output(values):
    return ResponseOutput(name="y", shape=[len(values)], datatype="FP32", data=values)


class Blocking(MLModel):
    async def load(self):
        self.uri = await get_model_uri(self.settings)
        self.thread = threading.get_ident()
        return True

    async def predict(self, payload):
        assert threading.get_ident() == self.thread
        note(f"rows {payload.inputs[0].shape[0]}")
        self.work(payload)
        return InferenceResponse(model_name=self.name, outputs=[output(list(payload.inputs[0].data))])

    def work(self, payload):
        if gate := getattr(payload.parameters, "gate", ""):
            block(gate)

    @custom_handler(rest_path="/uri")
    async def where(self) -> str:
        assert threading.get_ident() == self.thread
        return os.path.basename(self.uri)


class Helped(Blocking):
    async def predict(self, payload):
        response = await super().predict(payload)
        return await self.finish(response)

    async def finish(self, response):
        return response


class Decoded(MLModel):
    @decode_args
    async def predict(self, x: np.ndarray, gate: np.ndarray = None) -> np.ndarray:
        block(f"decoded-{int(x[0, 0])}")
        return x


class Streaming(MLModel):
    async def predict_stream(self, payloads):
        try:
            async for payload in payloads:
                yield InferenceResponse(model_name=self.name, outputs=[output([1.0])])
                if gate := getattr(payload.parameters, "gate", ""):
                    block(gate)
                yield InferenceResponse(model_name=self.name, outputs=[output([2.0])])
        finally:
            note("streaming ended")


class Mixed(Blocking):
    async def predict(self, payload):
        await asyncio.sleep(0)
        return await super().predict(payload)
"""

BLOCKING = ["blocking", "helped", "decoded"]


@pytest.fixture(scope="module")
def server(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("blocking") / "models"
    for name in ("blocking", "helped", "decoded", "streaming", "mixed"):
        write_model(folder, name, f"{name}.{name.title()}", CODE, name=name)
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "words", "faulty_models.Streaming")
    write_model(
        folder, "batched", "batched.Blocking", CODE, name="batched", max_batch_size=64, max_batch_time=0.005
    )
    write_model(folder, "impatient", "impatient.Blocking", CODE, name="impatient", request_timeout=0.3)
    settings = {"parallel_workers": workers, "shutdown_grace": 5}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    yield running
    for gate in ("impatient", "left-sse", "left-grpc"):
        open_gate(running, gate)
    assert running.stop() == 0, running.text()


@pytest.fixture
def gate(server: Running, request: pytest.FixtureRequest) -> Iterator[str]:
    """What a model blocks at until it is opened; one of this test's own."""
    name = "".join(letter for letter in request.node.name if letter.isalnum())
    yield name
    open_gate(server, name)


def open_gate(server: Running, gate: str) -> None:
    Path(f"{server.log}.{gate}").touch()


def entered(server: Running, gate: str) -> int:
    return server.log.read_text().splitlines().count(f"enter {gate}")


def gated(gate: str) -> dict:
    return fp32([1.0], parameters={"gate": gate})


def over_grpc(server: Running, model: str, gate: str) -> ModelInferRequest:
    request = ModelInferRequest(model_name=model)
    request.parameters["gate"].string_param = gate
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[1])
    tensor.contents.fp32_contents.append(1.0)
    return request


async def everything_else_goes_on(server: Running) -> None:
    """Health, metadata, other models and other models' streams, over REST, SSE and gRPC."""
    async with httpx.AsyncClient(base_url=server.url, timeout=5) as client:
        for path in ("health/live", "health/ready", "models/blocking", "models/echo/ready"):
            assert (await client.get(f"/v2/{path}")).status_code == 200
        assert (await client.post("/v2/models/echo/infer", json=fp32([1.0]))).status_code == 200
        request = fp32([1.0], parameters={"count": 3})
        url = "/v2/models/words/infer_stream"
        async with httpx_sse.aconnect_sse(client, "POST", url, json=request) as source:
            assert await anext(source.aiter_sse())
    async with grpc.aio.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        assert (await stub.ServerLive(ServerLiveRequest(), timeout=5)).live
        assert (await stub.ModelMetadata(ModelMetadataRequest(name="blocking"), timeout=5)).name == "blocking"
        assert (await stub.ModelInfer(over_grpc(server, "echo", ""), timeout=5)).outputs


@pytest.mark.parametrize("model", ["blocking", "helped", "mixed"])
@pytest.mark.parametrize("calls", [1, 8])
def test_blocking_coroutine_does_not_block_others(server: Running, gate: str, model: str, calls: int) -> None:
    with ThreadPoolExecutor(calls) as pool:
        asked = [pool.submit(server.infer, model, gated(gate)) for _ in range(calls)]
        eventually(lambda: entered(server, gate))
        try:
            asyncio.run(everything_else_goes_on(server))
            assert not any(one.done() for one in asked)
        finally:
            open_gate(server, gate)
        assert [one.result().status_code for one in asked] == [200] * calls


def test_blocking_coroutine_over_grpc(server: Running, gate: str) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        asked = stub.ModelInfer.future(over_grpc(server, "blocking", gate))
        eventually(lambda: entered(server, gate))
        asyncio.run(everything_else_goes_on(server))
        open_gate(server, gate)
        assert list(asked.result(5).outputs[0].contents.fp32_contents) == [1.0]


def test_blocking_typed_function_does_not_block_others(server: Running) -> None:
    with ThreadPoolExecutor(1) as pool:
        request = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [7.0]}]}
        asked = pool.submit(server.infer, "decoded", request)
        eventually(lambda: entered(server, "decoded-7"))
        try:
            asyncio.run(everything_else_goes_on(server))
        finally:
            open_gate(server, "decoded-7")
        assert asked.result().json()["outputs"][0]["data"] == [7.0]


def test_generator_blocking_between_items_does_not_block_others(server: Running, gate: str) -> None:
    url = f"{server.url}/v2/models/streaming/infer_stream"
    with httpx.Client(timeout=20) as client:
        with httpx_sse.connect_sse(client, "POST", url, json=gated(gate)) as source:
            events = source.iter_sse()
            assert json.loads(next(events).data)["outputs"][0]["data"] == [1.0]
            eventually(lambda: entered(server, gate))
            asyncio.run(everything_else_goes_on(server))
            open_gate(server, gate)
            assert json.loads(next(events).data)["outputs"][0]["data"] == [2.0]
            assert list(events) == []


def test_blocking_generator_over_grpc(server: Running, gate: str) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        stream = stub.ModelStreamInfer(iter([over_grpc(server, "streaming", gate)]))
        assert next(stream).outputs[0].contents.fp32_contents == [1.0]
        eventually(lambda: entered(server, gate))
        asyncio.run(everything_else_goes_on(server))
        open_gate(server, gate)
        assert [list(item.outputs[0].contents.fp32_contents) for item in stream] == [[2.0]]


def test_bidirectional_requests_reach_blocking_generator(server: Running) -> None:
    with triton_grpc.InferenceServerClient(server.grpc) as client:
        answers: list[float] = []
        came = threading.Semaphore(0)

        def on_answer(result: triton_grpc.InferResult, error: Exception | None) -> None:
            assert error is None, error
            answers.append(float(result.as_numpy("y")[0]))
            came.release()

        client.start_stream(on_answer)
        for _ in range(3):
            tensor = triton_grpc.InferInput("x", [1], "FP32")
            tensor.set_data_from_numpy(np.ones(1, np.float32))
            client.async_stream_infer("streaming", [tensor])
            assert came.acquire(timeout=10)
            assert came.acquire(timeout=10)
        client.stop_stream()
    assert answers == [1.0, 2.0] * 3


@pytest.mark.parametrize("transport", ["sse", "grpc"])
def test_cancelled_blocking_stream_ends_at_next_await(server: Running, transport: str) -> None:
    gate = f"left-{transport}"
    ended = lambda: server.log.read_text().splitlines().count("streaming ended")  # noqa: E731
    before = ended()
    if transport == "sse":
        url = f"{server.url}/v2/models/streaming/infer_stream"
        with httpx.Client(timeout=20) as client:
            with httpx_sse.connect_sse(client, "POST", url, json=gated(gate)) as source:
                next(source.iter_sse())
                eventually(lambda: entered(server, gate))
    else:
        with grpc.insecure_channel(server.grpc) as channel:
            stub = GRPCInferenceServiceStub(channel)
            stream = stub.ModelStreamInfer(iter([over_grpc(server, "streaming", gate)]))
            next(stream)
            eventually(lambda: entered(server, gate))
            stream.cancel()
    eventually(lambda: server.metric("inferstream_calls_in_progress", model="streaming") == 0)
    open_gate(server, gate)
    eventually(lambda: ended() == before + 1)


def test_calls_of_model_never_overlap(server: Running, workers: int, gate: str) -> None:
    calls = 6
    with ThreadPoolExecutor(calls) as pool:
        asked = [pool.submit(server.infer, "helped", gated(gate)) for _ in range(calls)]
        eventually(lambda: entered(server, gate) == max(workers, 1))
        asyncio.run(everything_else_goes_on(server))
        assert entered(server, gate) == max(workers, 1)
        open_gate(server, gate)
        assert [one.result().status_code for one in asked] == [200] * calls


def test_calls_queued_while_model_blocks_share_batch(server: Running, workers: int, gate: str) -> None:
    running, others = max(workers, 1), 24
    before = server.log.read_text().count("rows ")
    with ThreadPoolExecutor(running + others) as pool:
        asked = []
        for index in range(running):
            asked.append(pool.submit(server.infer, "batched", gated(gate)))
            eventually(lambda index=index: entered(server, gate) == index + 1)
        asked += [pool.submit(server.infer, "batched", fp32([2.0])) for _ in range(others)]
        eventually(
            lambda: server.metric("inferstream_calls_in_progress", model="batched") == running + others
        )
        open_gate(server, gate)
        answers = [one.result() for one in asked]
    assert [answer.status_code for answer in answers] == [200] * (running + others)
    rows = server.log.read_text().split("rows ")[1 + before :]
    sizes = [int(line.split()[0]) for line in rows]
    assert sum(sizes) == running + others
    assert max(sizes) >= others // running - 1
    assert len(sizes) <= 2 * running + 1


def test_deadline_holds_while_model_blocks(server: Running) -> None:
    answer = server.infer("impatient", gated("impatient"))
    assert answer.status_code == 504, answer.text
    assert entered(server, "impatient") == 1


def test_custom_route_runs_in_model_thread(server: Running) -> None:
    assert httpx.post(f"{server.url}/uri").json() in ("blocking", "helped", "batched", "impatient")
