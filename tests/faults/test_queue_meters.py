"""What the meters say of calls that waited: for their turn, for a place among steps, for a batch."""

import json
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Self

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, fp32, write_model

CODE = """
import asyncio
import os
import time
from pathlib import Path

from inferstream import Finished, MLModel, StepModel
from inferstream.types import InferenceResponse


def closed(request):
    return not Path(f"{os.environ['TEST_LOG']}.{request.parameters.gate}").exists()


def note(request):
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(f"ran {request.parameters.gate}\\n")


class Gated(MLModel):
    async def predict(self, payload):
        note(payload)
        while closed(payload):
            await asyncio.sleep(0.005)
        return InferenceResponse(model_name=self.name, outputs=[])


class Stepped(StepModel):
    def admit(self, request):
        note(request)
        return request

    def step(self, states):
        time.sleep(0.005)
        answer = InferenceResponse(model_name=self.name, outputs=[])
        return [None if closed(state) else Finished(answer) for state in states]


class AsyncStepped(Stepped):
    async def admit(self, request):
        note(request)
        return request

    async def step(self, states):
        await asyncio.sleep(0.005)
        answer = InferenceResponse(model_name=self.name, outputs=[])
        return [None if closed(state) else Finished(answer) for state in states]
"""

MODELS: dict[str, tuple[str, dict]] = {
    "queue": ("Gated", {"max_concurrency": 1}),
    "steps": ("Stepped", {"max_active": 1}),
    "async-steps": ("AsyncStepped", {"max_active": 1}),
    "batch": ("Gated", {"max_concurrency": 1, "max_batch_size": 2, "max_batch_time": 3600}),
}
WAITING = {
    "queue": "inferstream_queue_depth",
    "steps": "inferstream_streams_waiting",
    "async-steps": "inferstream_streams_waiting",
    "batch": "batch_request_queue_count",
}
CANCELLED = ("inferstream_calls_total cancelled", "inferstream_queue_dropped_total cancelled")
EXPIRED = ("inferstream_calls_total deadline_exceeded", "inferstream_queue_dropped_total expired")
WAITED = ("inferstream_queue_wait_seconds_count", "inferstream_queue_wait_seconds_sum")

gates = count(1)


@pytest.fixture(scope="module")
def metered(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("metered") / "models"
    for name, (implementation, settings) in MODELS.items():
        write_model(folder, name, f"gated.{implementation}", CODE, name=name, **settings)
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


class Scene:
    """A model whose every place is taken until the gate opens, and calls that wait behind."""

    def __init__(self, server: Running, client: httpx.Client, model: str, places: int) -> None:
        self.server, self.model = server, model
        self.gate = f"gate{next(gates)}"
        self._client = client
        self._pool = ThreadPoolExecutor(4)
        self.before = self.numbers()
        self.holders = [self.ask() for _ in range(places)]

    def request(self, **parameters) -> dict:
        return fp32([1.0], parameters={"gate": self.gate, **parameters})

    def rpc(self) -> ModelInferRequest:
        message = ModelInferRequest(model_name=self.model)
        message.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.0)
        message.parameters["gate"].string_param = self.gate
        return message

    def ask(self, **parameters) -> "Future[int]":
        body = self.request(**parameters)
        path = f"/v2/models/{self.model}/infer"
        return self._pool.submit(lambda: self._client.post(path, json=body).status_code)

    def numbers(self) -> Counter[str]:
        """The model's meters now, by their names and what tells those of one name apart."""
        found: Counter[str] = Counter()
        for line in self._client.get("/metrics").text.splitlines():
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            if re.search(rf'\b(model|model_name)="{self.model}"', labels):
                which = re.search(r'\b(?:end|reason)="(\w+)"', labels)
                found[f"{name} {which[1]}" if which else name] += float(value)
        return found

    def since(self, *names: str) -> list[float]:
        """By how much these meters have changed."""
        now = self.numbers()
        return [now[name] - self.before[name] for name in names]

    def waiting(self) -> bool:
        """Whether a call waits."""
        return self.since(WAITING[self.model]) == [1]

    def ran(self) -> int:
        """Calls that the model has begun with."""
        return self.server.log.read_text().count(f"ran {self.gate}\n")

    def __enter__(self) -> Self:
        eventually(lambda: self.ran() == len(self.holders), 10)
        return self

    def __exit__(self, *_: object) -> None:
        Path(f"{self.server.log}.{self.gate}").touch()
        self._pool.shutdown()
        assert {holder.result() for holder in self.holders} == {200}


Start = Callable[[str], Scene]


@pytest.fixture
def start_scene(metered: Running, workers: int) -> Iterator[Start]:
    with httpx.Client(base_url=metered.url, timeout=20) as client:
        yield lambda model: Scene(metered, client, model, max(workers, 1) if "steps" in model else 1)


Leaving = Iterator[Callable[[], object]]
"""Sends a call, and gives what its client does to leave."""


@contextmanager
def _rest(scene: Scene, action: str = "infer") -> Leaving:
    body = json.dumps(scene.request()).encode()
    path = f"/v2/models/{scene.model}/{action}".encode()
    with socket.create_connection(("127.0.0.1", scene.server.http_port)) as client:
        client.sendall(
            b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % (path, len(body))
        )
        client.sendall(body)
        yield client.close


def _sse(scene: Scene) -> AbstractContextManager[Callable[[], object]]:
    return _rest(scene, "infer_stream")


@contextmanager
def _ws(scene: Scene) -> Leaving:
    url = f"{scene.server.url.replace('http', 'ws', 1)}/v2/models/{scene.model}/stream"
    with connect(url, close_timeout=0.2) as websocket:
        websocket.send(json.dumps({**scene.request(), "id": "1"}))
        yield lambda: websocket.send(json.dumps({"id": "1", "cancel": True}))
        assert json.loads(websocket.recv())["code"] == "cancelled"


@contextmanager
def _grpc(scene: Scene) -> Leaving:
    with grpc.insecure_channel(scene.server.grpc) as channel:
        yield GRPCInferenceServiceStub(channel).ModelInfer.future(scene.rpc()).cancel


@contextmanager
def _grpc_stream(scene: Scene) -> Leaving:
    with grpc.insecure_channel(scene.server.grpc) as channel:
        yield GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([scene.rpc()])).cancel


WAYS = {"rest": _rest, "sse": _sse, "ws": _ws, "grpc": _grpc, "grpc-stream": _grpc_stream}
EACH = [
    pytest.param(model, way, id=f"{model}-{name}")
    for model in MODELS
    for name, way in WAYS.items()
    if model != "batch" or name in ("rest", "ws", "grpc")  # streams share no batch
]


@pytest.mark.parametrize(("model", "begin"), EACH)
def test_call_cancelled_in_queue_counts_as_cancelled(
    start_scene: Start, model: str, begin: Callable[[Scene], AbstractContextManager]
) -> None:
    with start_scene(model) as scene:
        with begin(scene) as leave:
            eventually(scene.waiting, 10)
            leave()
        eventually(lambda: scene.since(*CANCELLED) == [1, 1], 10)
    assert scene.since(*CANCELLED, *EXPIRED, *WAITED) == [1, 1, 0, 0, 0, 0]
    assert scene.ran() == len(scene.holders)


@pytest.mark.parametrize("model", MODELS)
def test_call_expired_in_queue_counts_as_expired(start_scene: Start, model: str) -> None:
    with start_scene(model) as scene:
        assert scene.ask(timeout=100_000).result() == 504
        eventually(lambda: scene.since(*EXPIRED) == [1, 1], 10)
    assert scene.since(*CANCELLED, *EXPIRED, *WAITED) == [0, 0, 1, 1, 0, 0]
    assert scene.ran() == len(scene.holders)


@pytest.mark.parametrize("model", ["queue", "steps", "async-steps"])
def test_queue_time_is_measured(start_scene: Start, model: str) -> None:
    with start_scene(model) as scene:
        waiting = scene.ask()
        eventually(scene.waiting, 10)
        assert scene.since(*WAITED) == [0, 0]
    assert waiting.result() == 200
    eventually(lambda: scene.since(WAITED[0]) == [1], 10)
    assert scene.since(WAITED[1]) > [0]
    assert scene.since("inferstream_calls_total success") == [len(scene.holders) + 1]
