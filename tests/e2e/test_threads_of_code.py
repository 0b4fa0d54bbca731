"""Blocking model code that belongs to one thread, or that asks for its thread's event loop."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

from tests import torchserve
from tests.serving import Running

BOUND = """
import asyncio
import sqlite3


class Bound:
    def __init__(self):
        self.database = sqlite3.connect(":memory:")
        self.loop = asyncio.get_event_loop()

    def call(self):
        return self.loop.run_until_complete(self._read())

    async def _read(self):
        await asyncio.sleep(0)
        return self.database.execute("select 7").fetchone()[0]
"""
"""A database connection for one thread, and the event loop of that thread."""

TRITON = (
    BOUND
    + """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.bound = Bound()

    def execute(self, requests):
        answers = [self.answer() for _ in requests]
        if not DECOUPLED:
            return answers
        for request, answer in zip(requests, answers):
            sender = request.get_response_sender()
            sender.send(answer)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def answer(self):
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([[self.bound.call()]], np.float32))])

    def finalize(self):
        self.bound.database.close()
        print(f"closed {DECOUPLED}\\n", end="", flush=True)  # one write: several models print at once
"""
)

CONFIG = """
backend: "python"
input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }} ]
output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }} ]
{}
"""

BATCHES = "max_batch_size: 8\ndynamic_batching { }"

HANDLER = BOUND.replace("class Bound:", "class Handler:").replace(
    "__init__(self)", "initialize(self, context)"
) + (
    """
    def handle(self, data, context):
        return [self.call() for _ in data]
"""
)

SENDING = "from ts.handler_utils.utils import send_intermediate_predict_response\n" + HANDLER.replace(
    "        return [",
    "        send_intermediate_predict_response([b'first '] * len(data), context.request_ids, 'ok', 200, context)\n"
    "        return [",
)

FUNCTIONS = """
import asyncio
from collections.abc import Iterator

from inferstream import App

app = App()


async def double(x):
    await asyncio.sleep(0)
    return 2 * x


def wait(x):
    return asyncio.get_event_loop().run_until_complete(double(x))


@app.model
def whole(x: int) -> int:
    return wait(x)


@app.model
def streamed(x: int) -> Iterator[int]:
    yield wait(x)
    yield wait(x + 1)


@app.model(batch=4)
def batched(x: list[int]) -> list[int]:
    return [wait(each) for each in x]
"""

CLASS = """
import asyncio

from inferstream import MLModel, decode_args

loop = asyncio.get_event_loop()


class Plain(MLModel):
    def load(self):
        return asyncio.get_event_loop().run_until_complete(asyncio.sleep(0, True))

    @decode_args
    def predict(self, x: int) -> int:
        return asyncio.get_event_loop().run_until_complete(asyncio.sleep(0, 2 * x))
"""


@pytest.fixture(scope="module", params=[0, 1], ids=["process", "worker"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("bound")
    for name, config, decoupled in (
        ("whole", "", False),
        ("several", "instance_group [ { count: 2 kind: KIND_CPU } ]", False),
        ("batched", BATCHES, False),
        ("decoupled", "model_transaction_policy { decoupled: true }", True),
    ):
        (root / name / "1").mkdir(parents=True)
        (root / name / "config.pbtxt").write_text(CONFIG.format(config))
        (root / name / "1" / "model.py").write_text(f"DECOUPLED = {decoupled}\n{TRITON}")
    (root / "plain").mkdir()
    (root / "plain" / "model.py").write_text(CLASS)
    (root / "plain" / "model-settings.json").write_text('{"name": "plain", "implementation": "model.Plain"}')
    running = Running(root, within=60, INFERSTREAM_PARALLEL_WORKERS=str(request.param))
    yield running
    assert running.stop() == 0, running.text()
    assert running.text().count("closed False") >= 3
    assert "closed True" in running.text()


def post(running: Running, path: str, document: object) -> httpx.Response:
    return httpx.post(f"{running.url}{path}", json=document, timeout=20)


@pytest.mark.parametrize("model", ["whole", "several", "batched"])
def test_triton_code_runs_in_thread_of_initialize(served: Running, model: str) -> None:
    for _ in range(3):
        answer = post(
            served, f"/v2/models/{model}/generate", {"IN": [[1.0]] if model == "batched" else [1.0]}
        )
        assert answer.status_code == 200, answer.text
        assert "7.0" in answer.text


def test_decoupled_calls_run_in_the_thread_of_initialize(served: Running) -> None:
    async def both() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=served.url, timeout=20) as client:
            call = client.post
            path = "/v2/models/decoupled/generate_stream"
            return await asyncio.gather(*(call(path, json={"IN": [1.0]}) for _ in range(8)))

    for answer in asyncio.run(both()):
        assert "7.0" in answer.text


@pytest.mark.parametrize("workers", [0, 1], ids=["process", "worker"])
def test_torchserve_handlers_run_in_thread_of_initialize(tmp_path: Path, workers: int) -> None:
    root = tmp_path / "archives"
    root.mkdir()
    torchserve.archive(root / "handler.mar", "handler.py", {"handler.py": HANDLER})
    torchserve.archive(root / "sending.mar", "handler.py", {"handler.py": SENDING})
    running = Running(root, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    try:
        for model, said in (("handler", "7"), ("sending", "first 7")) * 3:
            answer = httpx.post(f"{running.url}/predictions/{model}", content=b"x", timeout=20)
            assert (answer.status_code, answer.text) == (200, said)
    finally:
        running.stop()


def test_class_import_load_and_calls_have_event_loop(served: Running) -> None:
    answer = post(served, "/v2/models/plain/generate", {"x": 2})
    assert answer.json()["output-0"] == 4


@pytest.mark.parametrize("workers", [0, 1], ids=["process", "worker"])
def test_blocking_functions_have_event_loop(tmp_path: Path, workers: int) -> None:
    (tmp_path / "app.py").write_text(dedent(FUNCTIONS))
    running = Running(tmp_path, target=str(tmp_path / "app.py"), INFERSTREAM_PARALLEL_WORKERS=str(workers))
    try:
        assert post(running, "/v2/models/whole/generate", {"x": 2}).json()["output"] == 4
        assert post(running, "/v2/models/batched/generate", {"x": [2, 3]}).json()["output"] == [4, 6]
        streamed = post(running, "/v2/models/streamed/generate_stream", {"x": 2}).text
        assert '"output":4' in streamed
        assert '"output":6' in streamed
    finally:
        running.stop()
