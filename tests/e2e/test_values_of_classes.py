"""Values that model classes and Triton code return, and arrays inside objects: written exactly, or named and logged."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from websockets.sync.client import connect

from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.pairs import pairwise
from tests.serving import Running, write_model

VALUES = """
import numpy as np
import pandas as pd

VALUES = {
    "fortran": lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "reversed": lambda: np.arange(3, dtype=np.int64)[::-1],
    "big": lambda: np.arange(3, dtype=">f4"),
    "zero": lambda: np.array(2.5),
    "masked": lambda: np.ma.array([1.5, 2.5], mask=[False, True]),
    "masked_integers": lambda: np.ma.array([1, 2], mask=[False, True]),
    "structured": lambda: np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f4")]),
    "times": lambda: np.array(["2024-01-01", "NaT"], "M8[ns]"),
    "complex": lambda: np.array([1j]),
    "inside": lambda: {"n": np.float32(0.5), "v": np.arange(4)[::2]},
    "scalar": lambda: np.float32(2.5),
    "beyond": lambda: 2**70,
    "beyond_inside": lambda: {"n": [-(2**70)]},
    "generator": lambda: (i for i in range(2)),
}
"""
CLASSES = (
    VALUES
    + """
from inferstream import Finished, MLModel, StepModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceResponse, Parameters, RequestOutput, ResponseOutput


def made(request):
    name = request.inputs[0].data[0]
    return VALUES[name if isinstance(name, str) else bytes(name).decode()]()


class Codec(MLModel):
    def predict(self, request):
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("o", made(request))])


class Encoded(MLModel):
    def predict(self, request):
        wanted = request.outputs[0] if request.outputs else RequestOutput(name="o")
        return InferenceResponse(model_name=self.name, outputs=[self.encode(made(request), wanted)])


class Direct(MLModel):
    def predict(self, request):
        output = ResponseOutput(name="o", shape=[2], datatype="INT64", data=made(request))
        return InferenceResponse(model_name=self.name, outputs=[output])


class Step(StepModel):
    def admit(self, request):
        return request

    def step(self, requests):
        found = [NumpyCodec.encode_output("o", made(each)) for each in requests]
        return [Finished(InferenceResponse(model_name=self.name, outputs=[each])) for each in found]


class AsyncStep(StepModel):
    async def admit(self, request):
        return made(request)

    async def step(self, values):
        found = [self.encode(each, RequestOutput(name="o")) for each in values]
        return [Finished(InferenceResponse(model_name=self.name, outputs=[each])) for each in found]


class Parameter(MLModel):
    def predict(self, request):
        parameters = Parameters(v=made(request))
        one = ResponseOutput(name="o", shape=[1], datatype="INT64", data=[1])
        return InferenceResponse(model_name=self.name, parameters=parameters, outputs=[one])
"""
)
TRITON = (
    VALUES
    + """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        names = [pb_utils.get_input_tensor_by_name(each, "case").as_numpy()[0].decode() for each in requests]
        tensors = [pb_utils.Tensor("o", VALUES[name]()) for name in names]
        return [pb_utils.InferenceResponse(output_tensors=[tensor]) for tensor in tensors]
"""
)
CONFIG = """
backend: "python"
input [ { name: "case" data_type: TYPE_STRING dims: [1] } ]
output [ { name: "o" data_type: TYPE_FP64 dims: [-1] } ]
"""
WRITTEN = {
    "fortran": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    "reversed": [2, 1, 0],
    "big": [0.0, 1.0, 2.0],
    "zero": [2.5],
    "masked": [1.5, None],
    "scalar": [2.5],
}
STEPS_WRITTEN = pairwise(["Step", "AsyncStep"], list(WRITTEN))
REFUSED = ["masked_integers", "structured", "times", "complex", "inside"]
PARAMETERS = {
    "fortran": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
    "big": [0.0, 1.0, 2.0],
    "zero": 2.5,
    "masked_integers": [1, None],
    "times": ["2024-01-01T00:00:00", None],
    "inside": {"n": 0.5, "v": [0, 2]},
}


@pytest.fixture(scope="module", params=["0", "1"], ids=["server", "worker"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("values") / "models"
    for name in ("Codec", "Encoded", "Direct", "Step", "AsyncStep", "Parameter"):
        write_model(root, name, f"values_of_{name.lower()}.{name}", CLASSES, name=name)
    (root / "Triton" / "1").mkdir(parents=True)
    (root / "Triton" / "config.pbtxt").write_text(CONFIG)
    (root / "Triton" / "1" / "model.py").write_text(TRITON)
    running = Running(root, within=90, INFERSTREAM_PARALLEL_WORKERS=request.param)
    yield running
    assert running.stop() == 0, running.text()


def tensor(name: str) -> dict[str, Any]:
    return {"name": "case", "datatype": "BYTES", "shape": [1], "data": [name]}


def over_grpc(server: Running, model: str, name: str) -> messages.ModelInferResponse:
    request = messages.ModelInferRequest(model_name=model)
    request.inputs.add(name="case", datatype="BYTES", shape=[1]).contents.bytes_contents.append(name.encode())
    with grpc.insecure_channel(server.grpc) as channel:
        return GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=20)


@pytest.mark.parametrize(
    ("model", "name"), [*pairwise(["Codec", "Encoded"], list(WRITTEN)), *STEPS_WRITTEN, ("Triton", "big")]
)
def test_arrays_of_any_layout_are_encoded(server: Running, model: str, name: str) -> None:
    found = server.infer(model, {"inputs": [tensor(name)]}).json()["outputs"][0]
    assert found["data"] == WRITTEN[name]
    if model != "Triton":
        body = {"instances": [name]}
        predictions = httpx.post(f"{server.url}/v1/models/{model}:predict", json=body, timeout=20).json()
        assert np.array(predictions["predictions"]).ravel().tolist() == WRITTEN[name]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        *pairwise(["Codec", "Encoded", "Triton"], REFUSED),
        *pairwise(["Step", "AsyncStep"], REFUSED),
        ("Direct", "masked_integers"),
    ],
)
def test_value_without_tensor_is_model_error(server: Running, model: str, name: str) -> None:
    before = len(server.text())
    response = server.infer(model, {"inputs": [tensor(name)]})
    assert response.status_code == 500, response.text
    assert '"o"' in response.json()["error"] or "'o'" in response.json()["error"]
    with pytest.raises(grpc.RpcError) as refused:
        over_grpc(server, model, name)
    assert refused.value.code() is grpc.StatusCode.INTERNAL
    assert server.text()[before:].count("failed on request") == 2


def test_codec_requested_by_client_is_client_error(server: Running) -> None:
    wanted = {"name": "o", "parameters": {"content_type": "str"}}
    response = server.infer("Encoded", {"inputs": [tensor("fortran")], "outputs": [wanted]})
    assert response.status_code == 400, response.text


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_reach_clients(server: Running, name: str) -> None:
    right = PARAMETERS[name]
    assert server.infer("Parameter", {"inputs": [tensor(name)]}).json()["parameters"] == {"v": right}
    found = over_grpc(server, "Parameter", name).parameters["v"]
    assert (found.double_param if right == 2.5 else json.loads(found.string_param)) == right


@pytest.mark.parametrize("name", ["generator", "beyond", "beyond_inside"])
def test_invalid_parameter_is_named(server: Running, name: str) -> None:
    response = server.infer("Parameter", {"inputs": [tensor(name)]})
    assert (response.status_code, 'parameter "v"' in response.json()["error"]) == (500, True), response.text
    with pytest.raises(grpc.RpcError, match='parameter "v"'):
        over_grpc(server, "Parameter", name)


@pytest.mark.parametrize("value", [2**70, -(2**63) - 1])
@pytest.mark.parametrize("action", ["infer", "generate", "infer_stream"])
def test_parameter_over_64_bits_is_refused(server: Running, value: int, action: str) -> None:
    asked = {"case": "zero"} if action == "generate" else {"inputs": [tensor("zero")]}
    response = server.infer("Codec", {**asked, "parameters": {"p": value}}, action=action)
    assert (response.status_code, 'parameter "p"' in response.json()["error"]) == (400, True), response.text
    assert server.infer("Codec", {**asked, "parameters": {"p": 1e30}}, action=action).status_code == 200


APP = """
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel
from typing_extensions import TypedDict

from inferstream import App, Finished

app = App()
Floats = NDArray[np.float32]


@dataclass
class Data:
    a: Floats
    n: int = 1


class Fields(TypedDict):
    a: Floats


class Named(NamedTuple):
    a: Floats


class Model(BaseModel, arbitrary_types_allowed=True):
    a: Floats


def doubled(hint, double):
    def whole(x: hint) -> hint: return double(x)
    def stream(x: hint) -> Iterator[hint]: yield double(x)
    return whole, stream


HINTS = {
    "dict": (dict[str, Floats], lambda x: {name: 2 * each for name, each in x.items()}),
    "data": (Data, lambda x: Data(2 * x.a, x.n)),
    "fields": (Fields, lambda x: {"a": 2 * x["a"]}),
    "model": (Model, lambda x: Model(a=2 * x.a)),
    "list": (list[Floats], lambda x: [(2 * each)[::1] for each in x]),
    "series": (pd.Series, lambda x: 2 * x),
    "frames": (dict[str, pd.DataFrame], lambda x: {name: 2 * each for name, each in x.items()}),
    "numbers": (dict[str, np.float32], lambda x: {name: np.float32(2 * each) for name, each in x.items()}),
    "named": (Named, lambda x: Named(2 * x.a)),
}
for name, (hint, double) in HINTS.items():
    whole, stream = doubled(hint, double)
    app.model(f"whole_{name}")(whole)
    app.model(f"stream_{name}")(stream)


@app.model
def half(prompt: str) -> str: return "\\ud800"


@app.model
def halves(prompt: str) -> Iterator[str]: yield from ("a", "\\ud800")


@app.model
def vectors(text: list[str]) -> Floats: return np.ones((len(text) + (len(text) - 2), 2), np.float32)


@app.model
def missing(text: list[str]) -> Floats: return np.full((len(text), 2), np.nan, np.float32)


@app.steps
def steps(states: list[int]) -> list[int | Finished]: return [Finished(state) for state in states]


@steps.admit
def begin(x: NDArray[np.int64]) -> int: return int(x.sum())
"""
INSIDE: dict[str, tuple[Any, Any]] = {
    "dict": ({"a": [[1, 2]]}, {"a": [[2.0, 4.0]]}),
    "data": ({"a": [1.5]}, {"a": [3.0], "n": 1}),
    "fields": ({"a": [1.5]}, {"a": [3.0]}),
    "model": ({"a": [1.5]}, {"a": [3.0]}),
    "list": ([[1], [2, 3]], [[2.0], [4.0, 6.0]]),
    "series": ([1, 2], [2, 4]),
    "frames": ({"a": {"x": [1]}}, {"a": {"x": [2]}}),
    "numbers": ({"a": 0.5}, {"a": 1.0}),
}


@pytest.fixture(scope="module", params=["0", "1"], ids=["server", "worker"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("inside") / "code"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    running = Running(folder, target="code/app.py", within=60, INFERSTREAM_PARALLEL_WORKERS=request.param)
    yield running
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize("name", INSIDE)
def test_objects_can_contain_arrays(app: Running, name: str) -> None:
    sent, right = INSIDE[name]
    assert app.infer(f"whole_{name}", {"x": sent}, action="generate").json()["output"] == right
    event = app.infer(f"stream_{name}", {"x": sent}, action="generate_stream").text.split("\n\n")[0]
    assert json.loads(event.removeprefix("data: "))["output"] == right
    x = {"name": "x", "datatype": "BYTES", "shape": [1], "data": [json.dumps(sent)]}
    found = app.infer(f"whole_{name}", {"inputs": [x]}).json()["outputs"][0]["data"]
    assert json.loads(found[0]) == right


PROMPT = {"name": "prompt", "datatype": "BYTES", "shape": [1], "data": ["x"]}


def half_over_rest(app: Running, model: str) -> list[str]:
    streams = "_stream" if model == "halves" else ""
    body = {"inputs": [PROMPT]}
    return [
        app.infer(model, body, f"infer{streams}").text,
        app.infer(model, {"prompt": "x"}, f"generate{streams}").text,
    ]


def half_over_websocket(app: Running, model: str) -> list[str]:
    with connect(f"{app.url.replace('http', 'ws', 1)}/v2/models/{model}/stream") as socket:
        socket.send(json.dumps({"id": "1", "inputs": [PROMPT]}))
        return [next(text for text in map(str, socket) if "error" in text)]


def half_over_grpc(app: Running, model: str) -> list[str]:
    message = messages.ModelInferRequest(model_name=model)
    message.inputs.add(name="prompt", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"x")
    with grpc.insecure_channel(app.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        with pytest.raises(grpc.RpcError) as failed:
            if model == "half":
                stub.ModelInfer(message, timeout=20)
            else:
                list(stub.ModelStreamInfer(iter([message]), timeout=20))
    assert failed.value.code() is grpc.StatusCode.INTERNAL
    return [str(failed.value.details())]


@pytest.mark.parametrize("model", ["half", "halves"])
@pytest.mark.parametrize("ask", [half_over_rest, half_over_websocket, half_over_grpc])
def test_truncated_character_is_output_error(
    app: Running, model: str, ask: Callable[[Running, str], list[str]]
) -> None:
    for text in ask(app, model):
        assert "Output output cannot be written" in text.replace("\\", "").replace('"', "")


def test_named_tuple_has_named_outputs(app: Running) -> None:
    assert app.infer("whole_named", {"x": {"a": [1.5]}}, action="generate").json()["a"] == [3.0]


@pytest.mark.parametrize("name", ["dict", "data", "fields", "model", "numbers"])
def test_invalid_array_inside_object_is_named(app: Running, name: str) -> None:
    before = len(app.text())
    response = app.infer(f"whole_{name}", {"x": {"a": "text"}}, action="generate")
    assert response.status_code == 400, response.text
    assert 'argument "x": field "a": takes' in response.json()["error"]
    assert "failed on request" not in app.text()[before:]


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("embeddings", {"model": "vectors", "input": ["a"]}, "no vector for each of 1 texts"),
        ("embeddings", {"model": "vectors", "input": ["a", "b", "c"]}, "no vector for each of 3 texts"),
        ("embeddings", {"model": "missing", "input": "a"}, "not finite"),
    ],
)
def test_openai_clients_get_model_error(app: Running, path: str, body: Any, named: str) -> None:
    before = len(app.text())
    response = httpx.post(f"{app.url}/v1/{path}", json=body, timeout=20)
    assert (response.status_code, named in response.text) == (500, True), response.text
    assert app.text()[before:].count("failed on request") == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({}, "x"), ({"x": [1], "zz": 1}, "zz"), ({"x": "a"}, "x"), ({"x": [1.5]}, "x"), ({"x": None}, "x")],
)
@pytest.mark.parametrize("action", ["generate", "generate_stream"])
def test_invalid_step_arguments_are_named(app: Running, arguments: Any, named: str, action: str) -> None:
    before = len(app.text())
    response = app.infer("steps", arguments, action=action)
    assert (response.status_code, named in response.json()["error"]) == (400, True), response.text
    assert "failed on request" not in app.text()[before:]
