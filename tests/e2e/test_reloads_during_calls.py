"""Models that are loaded again while their streams run: each load keeps its own modules to its last call."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.pairs import pairwise
from tests.serving import Running, started_once

ITEMS = """
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pkg.sub
import utils

WHO = "{who}"


def opened(gate):
    return os.path.exists(gate)


def imported():
    from utils import WHO as who

    return who


def late():
    import late

    return utils.WHO if late.Thing is utils.Thing else "another class"


def pickled():
    import pickle

    return type(pickle.loads(pickle.dumps(utils.Thing()))).who


def hinted():
    import typing

    return typing.get_type_hints(utils.Hinted)["thing"].who


def in_thread():
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(imported).result()


def dynamic():
    return import_module("utils").WHO + import_module("pkg.sub").WHO


def seen():
    whos = [imported(), late(), pickled(), hinted(), in_thread(), dynamic(), pkg.late(), utils.WHO]
    return json.dumps(whos)
"""
APP = ITEMS.replace(
    "import pkg.sub",
    """from inferstream import App

import pkg.sub""",
) + (
    """
app = App()


@app.model("function")
async def stream(gate: str) -> AsyncIterator[str]:
    import asyncio

    yield WHO
    while not opened(gate):
        await asyncio.sleep(0.01)
    yield seen()
"""
)
CLASS = (
    ITEMS
    + """
from inferstream import MLModel, decode_args


class Model(MLModel):
    @decode_args
    def predict_stream(self, gate: str) -> Iterator[str]:
        yield WHO
        while not opened(gate):
            time.sleep(0.01)
        yield seen()
"""
)
TRITON = (
    ITEMS
    + """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            gate = pb_utils.get_input_tensor_by_name(request, "gate").as_numpy()[0].decode()
            sender = request.get_response_sender()
            sender.send(answer(WHO))
            while not opened(gate):
                time.sleep(0.01)
            sender.send(answer(seen()), flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def answer(text):
    return pb_utils.InferenceResponse([pb_utils.Tensor("result", np.array([text], dtype=object))])
"""
)
CONFIG = """
backend: "python"
input [{ name: "gate", data_type: TYPE_STRING, dims: [1] }]
output [{ name: "result", data_type: TYPE_STRING, dims: [1] }]
model_transaction_policy { decoupled: true }
"""
FORMS = {
    "function": ("function/app.py", APP),
    "class": ("class/model.py", CLASS),
    "triton": ("triton/1/model.py", TRITON),
}
PLACES = {
    "server": {},
    "worker": {"INFERSTREAM_PARALLEL_WORKERS": "1"},
    "front ends": {"INFERSTREAM_FRONTENDS": "2"},
}
LOADS = count(1)


def write(root: Path, form: str, who: int) -> None:
    at, text = FORMS[form]
    model = root / at
    (model.parent / "pkg").mkdir(parents=True, exist_ok=True)
    model.write_text(text.replace("{who}", str(who)))
    utils = f'WHO = "{who}"\n\n\nclass Thing:\n    who = WHO\n\n\nclass Hinted:\n    thing: "Thing"\n'
    files = {
        "utils": utils,
        "late": "from utils import Thing\n",
        "pkg/__init__": "def late():\n    from .sub import WHO\n    return WHO\n",
        "pkg/sub": f'WHO = "{who}"\n',
    }
    for name, content in files.items():
        (model.parent / f"{name}.py").write_text(content)


@pytest.fixture(scope="module")
def server_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    def start(place: str) -> Running:
        root = tmp_path_factory.mktemp("reloads") / "models"
        for form in FORMS:
            write(root, form, 0)
        for form, implementation in (("class", "model.Model"), ("function", "app:app/function")):
            settings = {"name": form, "implementation": implementation}
            (root / form / "model-settings.json").write_text(json.dumps(settings))
        (root / "triton/config.pbtxt").write_text(CONFIG)
        return Running(root, within=60, **PLACES[place])

    with started_once(start) as servers:
        yield servers


def over_sse(server: Running, model: str, gate: str) -> Iterator[str]:
    url = f"{server.url}/v2/models/{model}/generate_stream"
    with httpx.stream("POST", url, json={"gate": gate}, timeout=20) as answer:
        for line in answer.iter_lines():
            if line.startswith("data:"):
                found = json.loads(line.removeprefix("data:"))
                yield next(
                    value for name, value in found.items() if name.startswith(("result", "output", "error"))
                )


def over_websocket(server: Running, model: str, gate: str) -> Iterator[str]:
    tensor = {"name": "gate", "datatype": "BYTES", "shape": [1], "data": [gate]}
    with connect(f"{server.url.replace('http', 'ws')}/v2/models/{model}/stream") as line:
        line.send(json.dumps({"id": "1", "inputs": [tensor]}))
        for _ in range(2):
            found = json.loads(line.recv(20))
            yield found["outputs"][0]["data"][0] if "outputs" in found else found["error"]


def over_grpc(server: Running, model: str, gate: str) -> Iterator[str]:
    request = ModelInferRequest(model_name=model)
    request.inputs.add(name="gate", datatype="BYTES", shape=[1]).contents.bytes_contents.append(gate.encode())
    with grpc.insecure_channel(server.grpc) as channel:
        for answer in GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=20):
            if answer.outputs:
                yield answer.outputs[0].contents.bytes_contents[0].decode()


TRANSPORTS = {"SSE": over_sse, "WebSocket": over_websocket, "gRPC": over_grpc}


@pytest.mark.parametrize(("form", "place", "transport"), pairwise([*FORMS], [*PLACES], [*TRANSPORTS]))
def test_running_stream_keeps_its_modules(
    server_in: Callable[[str], Running], tmp_path: Path, form: str, place: str, transport: str
) -> None:
    server, stream, gate = server_in(place), TRANSPORTS[transport], tmp_path / "gate"
    streams = []
    for who in (next(LOADS), next(LOADS), next(LOADS)):
        write(server.folder, form, who)
        load = httpx.post(f"{server.url}/v2/repository/models/{form}/load", json={}, timeout=20)
        assert load.status_code == 200, load.text
        streams.append((str(who), stream(server, form, str(gate))))
        assert next(streams[-1][1]) == str(who)
    gate.touch()
    for who, items in streams:
        assert json.loads(next(items)) == [who] * 5 + [who * 2] + [who] * 2
