"""With `threads: 1`, the import, `load`, every call and `unload` of a class share one thread, gathered or not."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.frontends import two
from tests.serving import Running, write_model

MODEL = """
import os
import sqlite3
import threading
import time

import numpy as np

from inferstream import Finished, MLModel, StepModel, decode_args
from inferstream.codecs import StringCodec
from inferstream.types import InferenceResponse

IMPORTED = threading.get_ident()
local = threading.local()


class Loaded:
    def load(self):
        self.loaded = threading.get_ident()
        self.database = sqlite3.connect(":memory:")
        local.gradients = False

    def unload(self):
        self.database.close()
        with open(os.environ["TEST_LOG"], "a") as log:
            log.write(f"unloaded {threading.get_ident() == self.loaded}\\n")

    def found(self):
        self.database.execute("select 1")
        return f"{IMPORTED == self.loaded == threading.get_ident()}, {local.gradients}"

    def response(self):
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("found", [self.found()])])


class Plain(Loaded, MLModel):
    def predict(self, payload):
        return self.response()


class Batched(Loaded, MLModel):
    @decode_args
    def predict(self, x: np.ndarray) -> list[str]:
        time.sleep(0.02)
        return [self.found()] * len(x)


class Streamed(Loaded, MLModel):
    def predict_stream(self, payloads):
        for payload in payloads:
            yield self.response()
            yield self.response()


class Stepped(Loaded, StepModel):
    def admit(self, request):
        self.found()
        return [2]

    def step(self, states):
        for state in states:
            state[0] -= 1
        return [self.response() if state[0] else Finished(self.response()) for state in states]

    def release(self, state):
        self.found()
"""
MODELS = ("Plain", "Batched", "Streamed", "Stepped")


@pytest.fixture(scope="module", params=["in the server", "in workers", "behind front ends"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("threads") / "models"
    for name in MODELS:
        gathered = {"max_batch_size": 4, "max_batch_time": 0.05} if name == "Batched" else {}
        write_model(root, name, f"model.{name}", MODEL, threads=1, **gathered)
    if request.param == "behind front ends":
        two(root)
    running = Running(root, *(("--workers", "1") if request.param == "in workers" else ()), within=100)
    yield running
    assert running.stop() == 0, running.text()
    assert {*running.log.read_text().splitlines()} == {"unloaded True"}
    assert "Traceback" not in running.text()


@pytest.mark.parametrize("name", MODELS)
def test_model_code_runs_in_one_thread(server: Running, name: str) -> None:
    body = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1, 1], "data": [1]}]}
    action = "infer_stream" if name in ("Streamed", "Stepped") else "infer"
    with ThreadPoolExecutor(8) as clients:
        answers = list(clients.map(lambda _: server.infer(name, body, action).text, range(16)))
    for answer in answers:
        assert {*re.findall(r'"data":\[(.*?)\]', answer)} == {'"True, False"'}, answer
