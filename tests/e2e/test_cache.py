"""The response cache over every transport and with any number of workers: computed once, each caller its own."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from httpx_sse import connect_sse
from websockets.sync.client import connect

from tests.serving import Running, eventually, fp32, write_model

CODE = """
import asyncio
import os
from pathlib import Path

from inferstream import MLModel
from inferstream.errors import ModelError
from inferstream.types import InferenceResponse, ResponseOutput


def note(what):
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(what + "\\n")


class Counting(MLModel):
    async def gate(self, name, step):
        while name and not Path(f"{os.environ['TEST_LOG']}.{name}.{step}").exists():
            await asyncio.sleep(0.002)

    def answer(self, *values):
        output = ResponseOutput(name="y", shape=[len(values)], datatype="FP32", data=list(values))
        return InferenceResponse(model_name=self.name, outputs=[output])

    async def predict(self, payload):
        gate = payload.parameters.get("gate", "")
        note(f"predict {gate}")
        await self.gate(gate, 0)
        if payload.parameters.get("fails", False):
            raise ModelError("never", 418)
        return self.answer(*(2 * value for value in payload.inputs[0].data.flat()))

    async def predict_stream(self, payloads):
        async for payload in payloads:
            gate = payload.parameters.get("gate", "")
            note(f"stream {gate}")
            try:
                for i in range(4):
                    await self.gate(gate, i)
                    yield self.answer(i)
            finally:
                note(f"finally {gate}")
"""


@pytest.fixture(scope="module")
def caching(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("caching") / "models"
    write_model(folder, "counting", "counting.Counting", CODE, name="counting", cache_enabled=True)
    write_model(folder, "plain", "counting.Counting", CODE, name="plain")
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers, "cache_enabled": True}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def request(gate: str, **more) -> dict:
    return fp32([1.0, 2.0], parameters={"gate": gate}) | more


def open_gate(server: Running, gate: str, *steps: int) -> None:
    for step in steps:
        Path(f"{server.log}.{gate}.{step}").touch()


def ran(server: Running, line: str) -> int:
    return server.log.read_text().splitlines().count(line)


def looked_up(server: Running, result: str) -> float:
    return server.metric("inferstream_cache_lookups_total", model="counting", result=result)


def values(answer: dict) -> list[float]:
    return answer["outputs"][0]["data"]


def events(server: Running, asked: dict) -> Iterator[dict]:
    """The events of a stream, each when it is there."""
    url = f"{server.url}/v2/models/counting/infer_stream"
    with httpx.Client(timeout=20) as client, connect_sse(client, "POST", url, json=asked) as source:
        for event in source.iter_sse():
            yield event.json()


def test_transports_share_one_computation(caching: Running) -> None:
    gate = "transports"
    with ThreadPoolExecutor(8) as pool:
        joined = looked_up(caching, "joined")
        asking = [pool.submit(caching.infer, "counting", request(gate, id=f"id {i}")) for i in range(4)]
        eventually(lambda: looked_up(caching, "joined") == joined + 3)
        open_gate(caching, gate, 0)
        answers = [future.result().json() for future in asking]
    assert [answer["id"] for answer in answers] == [f"id {i}" for i in range(4)]
    assert [values(answer) for answer in answers] == [[2.0, 4.0]] * 4

    hits = looked_up(caching, "hit")
    client = triton_grpc.InferenceServerClient(caching.grpc)
    tensor = triton_grpc.InferInput("x", [2], "FP32")
    tensor.set_data_from_numpy(np.array([1, 2], np.float32))
    found = client.infer("counting", [tensor], request_id="rpc", priority=1, parameters={"gate": gate})
    client.close()
    assert (found.as_numpy("y").tolist(), found.get_response().id) == ([2.0, 4.0], "rpc")
    assert looked_up(caching, "hit") == hits + 1
    assert ran(caching, f"predict {gate}") == 1
    assert caching.metric("inferstream_cache_entries") >= 1
    assert caching.metric("inferstream_cache_bytes") >= 1


def test_late_stream_reader_gets_replay_and_live_items(caching: Running) -> None:
    gate = "late"
    early = events(caching, request(gate, id="early"))
    open_gate(caching, gate, 0, 1)
    assert [values(next(early)) for _ in range(2)] == [[0.0], [1.0]]

    with connect(f"ws://127.0.0.1:{caching.http_port}/v2/models/counting/stream") as socket:
        socket.send(json.dumps(request(gate, id="late")))
        assert [values(json.loads(socket.recv(10))) for _ in range(2)] == [[0.0], [1.0]]
        open_gate(caching, gate, 2, 3)
        late = [json.loads(socket.recv(10)) for _ in range(3)]
    rest = list(early)
    assert [(values(event), event["id"]) for event in rest] == [([2.0], "early"), ([3.0], "early")]
    assert [values(answer) for answer in late[:2]] == [[2.0], [3.0]]
    assert late[2]["parameters"]["triton_final_response"]

    replayed = list(events(caching, request(gate, id="replayed")))
    assert [(values(event), event["id"]) for event in replayed] == [
        ([float(i)], "replayed") for i in range(4)
    ]
    assert ran(caching, f"stream {gate}") == 1


def test_computation_ends_with_last_waiter(caching: Running) -> None:
    gate = "leaving"
    first, second = (events(caching, request(gate, id=name)) for name in ("first", "second"))
    open_gate(caching, gate, 0)
    assert values(next(first)) == values(next(second)) == [0.0]
    first.close()
    open_gate(caching, gate, 1)
    assert values(next(second)) == [1.0]
    second.close()
    eventually(lambda: ran(caching, f"finally {gate}") == 1)
    assert ran(caching, f"stream {gate}") == 1

    third = events(caching, request(gate, id="third"))
    assert values(next(third)) == [0.0]
    third.close()
    eventually(lambda: ran(caching, f"finally {gate}") == 2)


def test_time_limit_applies_per_caller(caching: Running) -> None:
    gate = "limits"
    with ThreadPoolExecutor(2) as pool:
        patient = pool.submit(caching.infer, "counting", request(gate, id="patient"))
        eventually(lambda: ran(caching, f"predict {gate}") == 1)
        hasty = request(gate, parameters={"gate": gate, "timeout": 100_000})
        assert caching.infer("counting", hasty).status_code == 504
        open_gate(caching, gate, 0)
        assert values(patient.result().json()) == [2.0, 4.0]
    assert caching.infer("counting", hasty).status_code == 200
    assert ran(caching, f"predict {gate}") == 1


def test_errors_are_not_cached(caching: Running) -> None:
    failing = request("", parameters={"fails": True})
    before = ran(caching, "predict ")
    for _ in range(2):
        answer = caching.infer("counting", failing)
        assert (answer.status_code, answer.json()["error"]) == (418, "never")
    assert ran(caching, "predict ") == before + 2


def test_reload_clears_cache_and_other_models_are_not_cached(caching: Running) -> None:
    open_gate(caching, "reload", 0)
    for _ in range(2):
        caching.infer("counting", request("reload"))
    assert ran(caching, "predict reload") == 1
    assert httpx.post(f"{caching.url}/v2/repository/models/counting/load", timeout=20).status_code == 200
    caching.infer("counting", request("reload"))
    assert ran(caching, "predict reload") == 2

    open_gate(caching, "plain", 0)
    for _ in range(2):
        caching.infer("plain", request("plain"))
    assert ran(caching, "predict plain") == 2


def test_model_settings_cannot_enable_cache(serve, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "counting", "counting.Counting", CODE, name="counting", cache_enabled=True)
    server = serve(folder)
    for _ in range(2):
        assert server.infer("counting", request("")).status_code == 200
    assert ran(server, "predict ") == 2
    assert "cache_enabled has no effect unless the server enables it" in server.text()
