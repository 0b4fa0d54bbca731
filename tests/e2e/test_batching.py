"""Requests that share a batch, over every transport and with any number of workers, get what they would alone."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, fp32, tensor, write_model

CODE = """
import asyncio
import os
from pathlib import Path

from inferstream import MLModel, RowErrors
from inferstream.errors import ModelError
from inferstream.types import InferenceResponse, ResponseOutput, TensorData


class Rows(MLModel):
    async def predict(self, payload):
        gate = payload.parameters.get("gate", "")
        log = os.environ["TEST_LOG"]
        with open(log, "a") as file:
            file.write(f"{gate} rows {payload.inputs[0].shape[0]}\\n")
        await asyncio.sleep(0.002)  # something for others to gather behind
        while gate and not Path(f"{log}.{gate}").exists():
            await asyncio.sleep(0.002)
        outputs = []
        for tensor in payload.inputs:
            if any(value in (-1, "bad", b"bad") for value in tensor.data.flat()):
                raise ModelError("a bad row", status_code=422)
            outputs.append(
                ResponseOutput(
                    name=tensor.name, shape=tensor.shape, datatype=tensor.datatype, data=tensor.data
                )
            )
        return InferenceResponse(model_name=self.name, outputs=outputs)


class Choosy(Rows):
    async def predict(self, payload):
        values = list(payload.inputs[0].data.flat())
        payload.inputs[0].data = TensorData([abs(value) for value in values])
        response = await super().predict(payload)
        errors = {row: ModelError(f"row of {-value}", 422) for row, value in enumerate(values) if value < 0}
        if errors:
            raise RowErrors(errors, response)
        return response


class Summing(MLModel):
    async def predict(self, payload):
        await Rows.predict(self, payload)
        total = sum(payload.inputs[0].data.flat())
        output = ResponseOutput(name="sum", shape=[1], datatype="FP32", data=[total])
        return InferenceResponse(model_name=self.name, outputs=[output])
"""


def write_models(folder: Path) -> Path:
    for name in ("rows", "summing", "choosy"):
        write_model(
            folder, name, f"rows.{name.title()}", CODE, name=name, max_batch_size=8, max_batch_time=30
        )
    write_model(folder, "eager", "rows.Rows", CODE, name="eager", max_batch_size=8, max_batch_time=0.005)
    return folder


@pytest.fixture(scope="module")
def batching(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_models(tmp_path_factory.mktemp("batching") / "models")
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


class Together:
    """Calls that meet in one batch: a first one runs, and holds up those that gather behind it."""

    def __init__(self, server: Running, gate: str, model: str = "rows") -> None:
        self.server, self.gate, self.model = server, gate, model
        self._pool = ThreadPoolExecutor(16)
        self._before = self._waited()
        self.first = self._pool.submit(self.rest, [0.0])
        self.eventually_ran(1)

    def _waited(self) -> float:
        return self.server.metric("batch_request_queue_count", model_name=self.model)

    def eventually_ran(self, rows: int) -> None:
        """Wait until the model has been given this many rows at once."""
        eventually(lambda: self.server.noted(f"{self.gate} rows {rows}"), 10)

    def ask(self, *asks: Callable[[], object]) -> list[Future]:
        """Ask for these, and wait until all of them gather."""
        before = self._waited()
        found = [self._pool.submit(ask) for ask in asks]
        eventually(lambda: self._waited() == before + len(asks), 10)
        return found

    def open(self) -> None:
        Path(f"{self.server.log}.{self.gate}").touch()

    def rest(self, data: list, headers: dict | None = None, **more) -> httpx.Response:
        request = fp32(data, id=f"id {data}", parameters={"gate": self.gate}) | more
        return self.server.infer(self.model, request, headers=headers or {})


def test_callers_over_every_transport_share_a_batch(batching: Running) -> None:
    together = Together(batching, "transports")
    values = np.array([7.0, 8.0, 9.0], np.float32)
    parameters = {"gate": "transports"}

    def over_grpc() -> object:
        with grpc.insecure_channel(batching.grpc) as channel:
            message = ModelInferRequest(model_name="rows", id="over grpc")
            message.parameters["gate"].string_param = "transports"
            given = message.inputs.add(name="x", datatype="FP32", shape=[2])
            given.contents.fp32_contents.extend([4.0, 5.0])
            return GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=20)

    def triton(module, address: str, **binary) -> object:
        client = module.InferenceServerClient(address)
        given = module.InferInput("x", [3], "FP32")
        given.set_data_from_numpy(values, **binary)
        found = client.infer("rows", [given], request_id="triton", parameters=parameters)
        client.close()
        return found

    rest, rpc, *tritons = together.ask(
        lambda: together.rest([1.0]),
        over_grpc,
        lambda: triton(triton_http, f"127.0.0.1:{batching.http_port}", binary_data=True),
        lambda: triton(triton_http, f"127.0.0.1:{batching.http_port}", binary_data=False),
        lambda: triton(triton_grpc, batching.grpc),
    )
    together.open()

    assert together.first.result().json()["outputs"][0]["data"] == [0.0]
    answer = rest.result().json()
    assert (answer["id"], answer["outputs"]) == ("id [1.0]", [tensor("x", "FP32", [1.0])])
    found = rpc.result()
    assert (found.id, list(found.outputs[0].shape)) == ("over grpc", [2])
    assert list(found.outputs[0].contents.fp32_contents) == [4.0, 5.0]
    for future in tritons:
        assert np.array_equal(future.result().as_numpy("x"), values)
    together.eventually_ran(1 + 2 + 3 * 3)


@pytest.mark.parametrize("datatype", ["INT64", "FP64", "BOOL", "BYTES"])
def test_callers_receive_their_rows_for_every_kind(batching: Running, datatype: str) -> None:
    gate = f"kinds-{datatype}"
    rows = {"INT64": [1, 2**53 + 1, 3], "FP64": [0.1, 1e300, 2], "BOOL": [True, False, True]}
    values = rows.get(datatype, ["a", "ü🙂", ""])

    def request(data: list) -> dict:
        inputs = [tensor("x", datatype, data * 2, [len(data), 2])]
        return {"inputs": inputs, "parameters": {"gate": gate}}

    together = Together(batching, gate)
    asks = [lambda data=values[:i]: batching.infer("rows", request(data)) for i in (1, 2, 3)]
    first, *others = asks
    leading = together._pool.submit(first)
    eventually(lambda: batching.log.read_text().count(f"{gate} rows 1\n") == 2)
    found = [leading, *together.ask(*others)]
    together.open()

    for count, future in enumerate(found, 1):
        assert future.result().json()["outputs"] == request(values[:count])["inputs"]
    together.eventually_ran(5)


def test_different_requests_share_no_batch(batching: Running) -> None:
    together = Together(batching, "differs")
    gate = {"gate": "differs"}
    requests = [
        fp32([1.0] * 4, parameters=gate) | {"inputs": [tensor("x", "FP32", [1.0] * 4, [2, 2])]},
        {"inputs": [tensor("x", "FP64", [1.0, 2.0])], "parameters": gate},
        {"inputs": [tensor("z", "FP32", [1.0, 2.0])], "parameters": gate},
        fp32([1.0, 2.0], parameters={**gate, "temperature": 1}),
        fp32([1.0, 2.0], parameters={**gate, "temperature": True}),
        fp32([1.0, 2.0], parameters={**gate, "temperature": 1.0}),
        fp32([1.0, 2.0], parameters=gate, outputs=[{"name": "x"}]),
        {"inputs": [tensor("x", "FP32", [1.0, 2.0], parameters={"content_type": "np"})], "parameters": gate},
    ]
    found = [together._pool.submit(batching.infer, "rows", request) for request in requests]
    eventually(lambda: batching.log.read_text().count("differs rows 2\n") == len(requests), 10)
    together.open()

    for request, future in zip(requests, found, strict=True):
        output = future.result().json()["outputs"][0]
        given = request["inputs"][0]
        assert [output[key] for key in ("shape", "data")] == [given[key] for key in ("shape", "data")]


def test_cancelled_member_does_not_affect_batch(batching: Running) -> None:
    together = Together(batching, "leaves")
    cancelled = batching.metric("inferstream_calls_total", model="rows", end="cancelled")
    with grpc.insecure_channel(batching.grpc) as channel:
        message = ModelInferRequest(model_name="rows")
        message.parameters["gate"].string_param = "leaves"
        message.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(5.0)
        before = together._waited()
        leaving = GRPCInferenceServiceStub(channel).ModelInfer.future(message)
        eventually(lambda: together._waited() == before + 1)
        stays = together.ask(lambda: together.rest([1.0]), lambda: together.rest([2.0]))
        leaving.cancel()
        eventually(
            lambda: batching.metric("inferstream_calls_total", model="rows", end="cancelled") > cancelled
        )
    together.open()

    assert [future.result().json()["outputs"][0]["data"] for future in stays] == [[1.0], [2.0]]
    together.eventually_ran(2)


def test_bad_member_fails_alone(batching: Running) -> None:
    together = Together(batching, "bad")
    values = [[1.0], [2.0, 3.0], [-1.0], [4.0], [5.0]]
    found = together.ask(*(lambda data=data: together.rest(data) for data in values))
    together.open()

    for data, future in zip(values, found, strict=True):
        response = future.result()
        if data == [-1.0]:
            assert response.status_code == 422
            assert response.json()["error"] == "a bad row"
        else:
            assert response.json()["outputs"][0]["data"] == data
    together.eventually_ran(6)


def test_expired_member_ends_alone(batching: Running) -> None:
    together = Together(batching, "deadline")
    late, stays = together.ask(
        lambda: together.rest([1.0], {"X-Request-Timeout": "0.3"}), lambda: together.rest([2.0])
    )
    assert late.result().status_code == 504
    together.open()
    assert stays.result().json()["outputs"][0]["data"] == [2.0]


def test_output_without_batch_rows_is_reported(batching: Running) -> None:
    together = Together(batching, "summing", "summing")
    found = together.ask(lambda: together.rest([1.0]), lambda: together.rest([2.0]))
    together.open()

    assert together.first.result().json()["outputs"][0]["data"] == [0.0]
    for future in found:
        assert future.result().status_code == 500
        assert '"sum" of shape [1] to a batch of 2 rows' in future.result().json()["error"]


def test_reload_under_load_keeps_calls_and_batches(batching: Running) -> None:
    done = False

    def call(number: int) -> list[int]:
        statuses = []
        with httpx.Client(timeout=20) as client:
            while not done:
                answer = client.post(f"{batching.url}/v2/models/eager/infer", json=fp32([float(number)]))
                statuses.append(answer.status_code)
                assert answer.json()["outputs"][0]["data"] == [number], answer.text
        return statuses

    def shared() -> float:
        """Requests that were in a batch of more than one."""
        name = "inferstream_batch_size"
        return batching.metric(f"{name}_sum", model="eager") - batching.metric(f"{name}_count", model="eager")

    with ThreadPoolExecutor(8) as pool:
        calling = [pool.submit(call, number) for number in range(8)]
        try:
            for _ in range(3):
                before = shared()
                eventually(lambda before=before: shared() > before, 20)
                url = f"{batching.url}/v2/repository/models/eager/load"
                assert httpx.post(url, timeout=30).status_code == 200
            before = shared()
            eventually(lambda: shared() > before, 20)
        finally:
            done = True
        for future in calling:
            assert set(future.result()) == {200}


def test_bad_rows_fail_only_their_callers_and_run_once(batching: Running) -> None:
    together = Together(batching, "named", "choosy")
    values = [[1.0], [2.0, -3.0], [4.0], [-5.0]]
    found = together.ask(*(lambda data=data: together.rest(data) for data in values))
    together.open()

    answers = [future.result() for future in found]
    assert [answer.status_code for answer in answers] == [200, 422, 200, 422]
    assert [answer.json().get("error") for answer in answers] == [None, "row of 3.0", None, "row of 5.0"]
    assert [answers[i].json()["outputs"][0]["data"] for i in (0, 2)] == [[1.0], [4.0]]
    ran = [line for line in batching.log.read_text().splitlines() if line.startswith("named rows")]
    assert ran == ["named rows 1", "named rows 5"]


def test_single_request_gets_error_of_its_first_bad_row(batching: Running) -> None:
    answer = batching.infer("choosy", fp32([1.0, -2.0, -3.0]))
    assert (answer.status_code, answer.json()["error"]) == (422, "row of 2.0")
    refused = batching.infer("choosy", fp32([-7.0]), headers={"x-request-id": "1"})
    assert (refused.status_code, refused.json()["error"]) == (422, "row of 7.0")
