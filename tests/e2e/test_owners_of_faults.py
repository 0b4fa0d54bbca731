"""A fault of the client is a 4xx that names it and is not logged; a fault of the model is a 500 that is logged once.

The tables have every pair of fault, transport, model and place.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
import httpx
import numpy as np
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests import grpc_web
from tests.pairs import pairwise
from tests.serving import Running, eventually, started_once, write_model

APP = """
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferstream import App

app = App()


@app.model
def add(x: int, when: datetime | None = None) -> int:
    return x


@app.model
def total(x: NDArray[np.int64]) -> int:
    return int(x.sum())


@app.model(batch=4)
def rows(x: list[int]) -> list[int]:
    return x


@app.model
def words(prompt: str) -> Iterator[str]:
    if prompt == "fail":
        raise ValueError("secret")
    yield "a"
    if prompt == "late":
        raise ValueError("secret")


@app.model
def none(x: int) -> int:
    return None


@app.model
def another(x: int) -> int:
    return "text"


@app.model
def opaque(x: int) -> Any:
    return object()


@app.model
def mixed(x: int) -> NDArray[np.int64]:
    return np.array([1, "a", object()], dtype=object)


@app.model
def generated(x: int) -> int:
    return (i for i in range(2))


@app.model
async def coroutine(x: int) -> int:
    return nothing_yet()


async def nothing_yet() -> int:
    return 1


@app.model
def ragged(x: int) -> NDArray[np.int64]:
    return [[1], [2, 3]]


@app.model
def raises(x: int) -> int:
    raise ValueError("secret")


@app.model(batch=4)
def fewer(x: list[int]) -> list[int]:
    return x[1:] + [1, 2]


@app.model
def later(x: int) -> Iterator[int]:
    yield 1
    yield "text"


@app.model
def counted(x: int) -> Iterator[int]:
    print("RAN", flush=True)
    yield from range(x)


@app.model
def late(x: int) -> Iterator[int]:
    yield 1
    raise ValueError("secret")


@app.model
async def odd(x: int) -> AsyncIterator[int]:
    yield 1
    yield "text"
"""
CLASSES = """
from inferstream import Finished, MLModel, StepModel
from inferstream.types import InferenceResponse, MetadataTensor, ResponseOutput

X = [MetadataTensor(name="x", datatype="INT64", shape=[1])]
OUT = [MetadataTensor(name="output", datatype="INT64", shape=[1])]


class Base(MLModel):
    inputs = X
    outputs = OUT


def response(**fields):
    output = {"name": "output", "datatype": "INT64", "shape": [1], "data": [1]} | fields
    return InferenceResponse(model_name="m", outputs=[ResponseOutput(**output)])


class CNone(Base):
    async def predict(self, request):
        return None


class COpaque(Base):
    async def predict(self, request):
        return response(data=[object()])


class CTexts(Base):
    async def predict(self, request):
        return response(data=["a"])


class CShape(Base):
    async def predict(self, request):
        return response(shape=[3])


class CRaises(Base):
    async def predict(self, request):
        raise ValueError("secret")


class Steps(StepModel):
    inputs = X
    outputs = OUT

    def admit(self, request):
        return request

    def step(self, states):
        return [self.advance(state) for state in states]


class STotal(Steps):
    def advance(self, state):
        return Finished(response(data=[int(state.inputs[0].data[0])]))


class SAsync(STotal):
    async def step(self, states):
        return super().step(states)


class SNone(Steps):
    def advance(self, state):
        return Finished(None)


class SOpaque(Steps):
    def advance(self, state):
        return Finished(response(data=[object()]))


class SDatatype(Steps):
    def advance(self, state):
        return Finished(response(datatype="FP32"))


class SRaises(Steps):
    def advance(self, state):
        return ValueError("secret")


class SAdmits(Steps):
    def admit(self, request):
        raise ValueError("secret")


class SLate(Steps):
    def step(self, states):
        return [[response(), response(shape=[3])] for state in states]


class CLate(Base):
    async def predict_stream(self, requests):
        async for _ in requests:
            yield response()
            raise ValueError("secret")
"""
FAILURES = ("failed on request", "Traceback")
STEPS = ("STotal", "SAsync")
"""Classes whose steps are right."""

CLASS_NAMES = ("CNone", "COpaque", "CTexts", "CShape", "CRaises", "CLate", *STEPS)
CLASS_NAMES += ("SNone", "SOpaque", "SDatatype", "SRaises", "SAdmits", "SLate")


class Result(NamedTuple):
    """Whose fault a call ended with (`client`, `model` or none), and all that came back."""

    owner: str
    said: str


Server = Callable[[str, str], Running]
Transport = Callable[[Running, str, list[dict[str, Any]]], Result]


PLACES = ("server", "worker")


@pytest.fixture(scope="module")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that has a model in a place."""

    def start(kind: tuple[bool, str]) -> Running:
        is_class, place = kind
        folder = tmp_path_factory.mktemp("owners") / "models"
        if is_class:
            for name in CLASS_NAMES:
                write_model(
                    folder,
                    name,
                    f"owners_of_{name.lower()}.{name}",
                    CLASSES,
                    name=name,
                    input_validation="strict",
                )
        else:
            folder.mkdir()
            (folder / "app.py").write_text(APP)
        target = folder if is_class else folder / "app.py"
        return Running(target, within=60, INFERSTREAM_PARALLEL_WORKERS=str(PLACES.index(place)))

    with started_once(start) as servers:
        yield lambda model, place: servers((model in CLASS_NAMES, place))


def x(**fields: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": "INT64", "shape": [1], "data": [1]} | fields


def over_http(running: Running, path: str, body: Any, **options: Any) -> Result:
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    response = httpx.post(f"{running.url}{path}", timeout=20, **content, **options)
    owner = {2: "", 4: "client", 5: "model"}[response.status_code // 100]
    if response.status_code == 200 and '"error"' in response.text:  # behind the first item of a stream
        owner = "model"
    return Result(owner, response.text)


def over_rest(running: Running, model: str, tensors: list[dict[str, Any]]) -> Result:
    return over_http(running, f"/v2/models/{model}/infer", {"inputs": tensors})


def over_binary(running: Running, model: str, tensors: list[dict[str, Any]]) -> Result:
    described, raw = [], b""
    for tensor in tensors:
        content = raw_of(tensor)
        fields = {key: value for key, value in tensor.items() if key != "data"}
        described.append(fields | {"parameters": {"binary_data_size": len(content)}})
        raw += content
    head = json.dumps({"inputs": described}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    return over_http(running, f"/v2/models/{model}/infer", head + raw, headers=headers)


def over_sse(running: Running, model: str, tensors: list[dict[str, Any]]) -> Result:
    return over_http(running, f"/v2/models/{model}/infer_stream", {"inputs": tensors})


def over_websocket(running: Running, model: str, tensors: list[dict[str, Any]]) -> Result:
    with connect(f"ws://127.0.0.1:{running.http_port}/v2/models/{model}/stream") as socket:
        socket.send(json.dumps({"id": "a", "inputs": tensors}))
        while True:
            message = json.loads(socket.recv(20))
            if "error" in message:
                owner = "model" if message["code"] == "internal" else "client"
                return Result(owner, json.dumps(message))
            if not message.get("outputs"):
                return Result("", json.dumps(message))


def raw_of(tensor: dict[str, Any]) -> bytes:
    if tensor["datatype"] == "BYTES":
        return b"".join(len(each).to_bytes(4, "little") + each.encode() for each in tensor["data"])
    return np.array(tensor["data"], "<f4" if tensor["datatype"] == "FP32" else "<i8").tobytes()


def request_of(model: str, tensors: list[dict[str, Any]], raw: bool) -> messages.ModelInferRequest:
    request = messages.ModelInferRequest(model_name=model)
    for tensor in tensors:
        made = request.inputs.add(name=tensor["name"], datatype=tensor["datatype"], shape=tensor["shape"])
        if raw:
            request.raw_input_contents.append(raw_of(tensor))
        elif tensor["datatype"] == "BYTES":
            made.contents.bytes_contents.extend(each.encode() for each in tensor["data"])
        elif tensor["datatype"] == "FP32":
            made.contents.fp32_contents.extend(tensor["data"])
        else:
            made.contents.int64_contents.extend(tensor["data"])
    return request


CLIENT_CODES = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


def over_grpc(call: Callable[[GRPCInferenceServiceStub, Any], Any], raw: bool) -> Transport:
    def send(running: Running, model: str, tensors: list[dict[str, Any]]) -> Result:
        with grpc.insecure_channel(running.grpc) as channel:
            try:
                found = call(GRPCInferenceServiceStub(channel), request_of(model, tensors, raw))
            except grpc.RpcError as error:
                owner = "client" if error.code() in CLIENT_CODES else "model"
                return Result(owner, f"{error.code()} {error.details()}")
            errors = [text for each in found if (text := getattr(each, "error_message", ""))]
            return Result("unknown" if errors else "", str(errors))

    return send


def over_grpc_web(running: Running, model: str, tensors: list[dict[str, Any]]) -> Result:
    ended = grpc_web.call(running.url, "ModelInfer", request_of(model, tensors, True).SerializeToString())
    owner = {0: "", 3: "client", 5: "client"}.get(ended.status, "model")
    return Result(owner, ended.message)


def over_jsonrpc(running: Running, model: str, arguments: dict[str, Any]) -> Result:
    body = {"jsonrpc": "2.0", "id": 1, "method": model, "params": arguments}
    response = httpx.post(f"{running.url}/jsonrpc", json=body, timeout=20)
    assert response.status_code == 200, response.text
    error = response.json().get("error")
    owner = "" if error is None else "model" if error["code"] in (-32603, -32000) else "client"
    return Result(owner, response.text)


def over_generate_tensors(running: Running, model: str, tensors: list[dict[str, Any]]) -> Result:
    return over_generate(running, model, {"inputs": tensors})


def over_mcp(running: Running, model: str, arguments: dict[str, Any]) -> Result:
    """MCP has no owner of an error, so the log of the caller's test is the proof."""
    params = {"name": model, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    found = httpx.post(f"{running.url}/mcp", json=body, timeout=20)
    return Result("either", found.text)


def over_generate(running: Running, model: str, arguments: dict[str, Any]) -> Result:
    return over_http(running, f"/v2/models/{model}/generate", arguments)


def over_generate_stream(running: Running, model: str, arguments: dict[str, Any]) -> Result:
    return over_http(running, f"/v2/models/{model}/generate_stream", arguments)


def over_v1(running: Running, model: str, arguments: dict[str, Any]) -> Result:
    return over_http(running, f"/v1/models/{model}:predict", {"instances": [arguments]})


ARGUMENTS: dict[str, Callable[[Running, str, dict[str, Any]], Result]] = {
    "generate": over_generate,
    "generate_stream": over_generate_stream,
    "JSON-RPC": over_jsonrpc,
    "MCP": over_mcp,
    "KServe V1": over_v1,
}
TRANSPORTS: dict[str, Transport] = {
    "REST": over_rest,
    "REST binary": over_binary,
    "SSE": over_sse,
    "WebSocket": over_websocket,
    "gRPC typed": over_grpc(lambda stub, request: [stub.ModelInfer(request, timeout=20)], raw=False),
    "gRPC raw": over_grpc(lambda stub, request: [stub.ModelInfer(request, timeout=20)], raw=True),
    "gRPC stream": over_grpc(
        lambda stub, request: [*stub.ModelStreamInfer(iter([request]), timeout=20)], raw=True
    ),
    "gRPC-Web": over_grpc_web,
}
TENSORS = {**TRANSPORTS, "generate": over_generate_tensors}
WRONG_TENSORS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "none": ([], "x"),
    "unknown": ([x(), x(name="zz")], "zz"),
    "twice": ([x(), x()], "x"),
    "another datatype": ([x(datatype="FP32", data=[1.5])], "x"),
    "texts": ([x(datatype="BYTES", data=["a"])], "x"),
    "an unknown datatype": ([x(datatype="INT65")], "INT65"),
    "too few values": ([x(shape=[7])], "x"),
    "too many values": ([x(data=[1, 2, 3])], "x"),
    "a negative size": ([x(shape=[-1])], "x"),
    "a huge size": ([x(shape=[2**62])], "x"),
}
WRONG_JSON: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a size beyond 64 bits": ([x(shape=[10**30])], "x"),
    "a string in place of a number": ([x(data=["a"])], "x"),
    "null in place of a number": ([x(data=[None])], "x"),
    "no data": ([{"name": "x", "datatype": "INT64", "shape": [1]}], "x"),
}
"""Tensors that only JSON can express."""


def logged(running: Running, before: int) -> str:
    return running.text()[before:]


MODELS = ("add", "total", "rows", *STEPS)
WRONG_ROWS = pairwise(list(WRONG_TENSORS), list(TENSORS), MODELS, PLACES)
WRONG_ROWS += pairwise(list(WRONG_JSON), ["REST", "SSE", "WebSocket", "generate"], MODELS, PLACES)


@pytest.mark.parametrize(("wrong", "transport", "model", "place"), WRONG_ROWS)
def test_invalid_input_is_named_and_not_logged(
    server_of: Server, wrong: str, transport: str, model: str, place: str
) -> None:
    tensors, named = (WRONG_TENSORS | WRONG_JSON)[wrong]
    running = server_of(model, place)
    before = len(running.text())
    found = TENSORS[transport](running, model, tensors)
    assert (found.owner, named in found.said) == ("client", True), found
    assert not any(mark in logged(running, before) for mark in FAILURES)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_unknown_model_is_named_and_not_logged(server_of: Server, transport: str, place: str) -> None:
    running = server_of("add", place)
    before = len(running.text())
    if transport == "WebSocket":
        with pytest.raises(InvalidStatus, match="404"):
            TRANSPORTS[transport](running, "zz", [x()])
    else:
        found = TRANSPORTS[transport](running, "zz", [x()])
        assert (found.owner, "zz" in found.said) == ("client", True), found
    assert not any(mark in logged(running, before) for mark in FAILURES)


WRONG_REQUESTS: dict[str, tuple[str, Any, int, str]] = {
    "an unknown output": ("add/infer", {"inputs": [x()], "outputs": [{"name": "zz"}]}, 400, "zz"),
    "parameters that are none": ("add/infer", {"inputs": [x()], "parameters": 3}, 400, "parameters"),
    "a priority of another type": (
        "add/infer",
        {"inputs": [x()], "parameters": {"priority": "a"}},
        400,
        "priority",
    ),
    "a time limit of another type": (
        "add/infer",
        {"inputs": [x()], "parameters": {"timeout": "a"}},
        400,
        "timeout",
    ),
    "an unknown model": ("zz/infer", {"inputs": [x()]}, 404, "zz"),
    "an unknown version": ("add/versions/9/infer", {"inputs": [x()]}, 404, "9"),
    "a date that is none": ("add/generate", {"x": 1, "when": "soon"}, 400, "when"),
    "a null": ("add/generate", {"x": None}, 400, "x"),
    "an id that is a number": ("add/generate", {"x": 1, "id": 7}, 400, "id, which names the request"),
    "no object": ("add/infer", [1], 400, "object"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("wrong", WRONG_REQUESTS)
def test_invalid_request_is_named_and_not_logged(server_of: Server, wrong: str, place: str) -> None:
    path, body, status, named = WRONG_REQUESTS[wrong]
    running = server_of("add", place)
    before = len(running.text())
    response = httpx.post(f"{running.url}/v2/models/{path}", json=body, timeout=20)
    assert (response.status_code, named in response.json()["error"]) == (status, True), response.text
    assert not any(mark in logged(running, before) for mark in FAILURES)


MODEL_FAULTS = {
    "none": "output",
    "another": "output",
    "opaque": "output",
    "mixed": "output",
    "generated": "output",
    "coroutine": "output",
    "ragged": "output",
    "raises": "log says why",
    "fewer": "items",
    "late": "log says why",
    "odd": "output",
    "later": "output",
    "CNone": "CNone",
    "COpaque": "output",
    "CTexts": "output",
    "CShape": "output",
    "CRaises": "log says why",
    "CLate": "log says why",
    "SNone": "SNone",
    "SOpaque": "output",
    "SDatatype": "output",
    "SRaises": "log says why",
    "SAdmits": "log says why",
    "SLate": "output",
}
STREAMED = ("late", "odd", "later", "CLate", "SLate")
STREAMS = ("SSE", "WebSocket", "gRPC stream")
FAULT_ROWS = pairwise([name for name in MODEL_FAULTS if name not in STREAMED], list(TRANSPORTS), PLACES)
FAULT_ROWS += pairwise(STREAMED, STREAMS, PLACES)


@pytest.mark.parametrize(("model", "transport", "place"), FAULT_ROWS)
def test_model_error_is_logged_once(server_of: Server, model: str, transport: str, place: str) -> None:
    running = server_of(model, place)
    before = len(running.text())
    found = TRANSPORTS[transport](running, model, [x()])
    assert (found.owner, MODEL_FAULTS[model] in found.said) == ("model", True), found
    assert "secret" not in found.said
    assert " at 0x" not in found.said
    eventually(lambda: f"model {model} failed on request" in logged(running, before))
    assert logged(running, before).count("failed on request") == 1


WRONG_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, "x"),
    "unknown": ({"x": 1, "zz": 1}, "zz"),
    "a text": ({"x": "a"}, "x"),
    "a fraction": ({"x": 1.5}, "x"),
    "null": ({"x": None}, "x"),
    "an object": ({"x": {}}, "x"),
    "beyond 64 bits": ({"x": 10**30}, "x"),
}


@pytest.mark.parametrize(
    ("wrong", "transport", "model", "place"),
    pairwise(list(WRONG_ARGUMENTS), list(ARGUMENTS), ["add", "total"], PLACES),
)
def test_invalid_argument_is_named_and_not_logged(
    server_of: Server, wrong: str, transport: str, model: str, place: str
) -> None:
    arguments, named = WRONG_ARGUMENTS[wrong]
    running = server_of(model, place)
    before = len(running.text())
    found = ARGUMENTS[transport](running, model, arguments)
    assert found.owner in ("client", "either"), found
    assert named in found.said
    assert not any(mark in logged(running, before) for mark in FAILURES)


FUNCTION_FAULTS = [name for name in MODEL_FAULTS if name not in (*STREAMED, *CLASS_NAMES)]
ARGUMENT_ROWS = pairwise(FUNCTION_FAULTS, list(ARGUMENTS), PLACES)
ARGUMENT_ROWS += pairwise(("late", "odd", "later"), ["generate_stream"], PLACES)


@pytest.mark.parametrize(("model", "transport", "place"), ARGUMENT_ROWS)
def test_typed_function_error_is_logged_once(
    server_of: Server, model: str, transport: str, place: str
) -> None:
    running = server_of(model, place)
    before = len(running.text())
    found = ARGUMENTS[transport](running, model, {"x": [1] if model == "fewer" else 1})
    assert found.owner in ("model", "either"), found
    assert MODEL_FAULTS[model] in found.said
    assert "secret" not in found.said
    eventually(lambda: "failed on request" in logged(running, before))
    assert logged(running, before).count("failed on request") == 1


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("action", ["infer", "generate"])
def test_streaming_function_is_refused_before_it_runs(server_of: Server, action: str, place: str) -> None:
    running = server_of("counted", place)
    before = len(running.text())
    body = {"inputs": [x(data=[3])]} if action == "infer" else {"x": 3}
    response = running.infer("counted", body, action=action)
    assert response.status_code == 501
    assert "generate_stream" in response.json()["error"]
    assert "RAN" not in logged(running, before)


PROMPTS = [
    (3, "client", "prompt"),
    (None, "client", "prompt"),
    ("fail", "model", "log says why"),
    ("late", "model", "log says why"),
]


@pytest.mark.parametrize(("prompt", "stream", "place"), pairwise(PROMPTS, [False, True], PLACES))
def test_openai_clients_see_error_owner(
    server_of: Server, prompt: tuple[Any, str, str], stream: bool, place: str
) -> None:
    value, owner, named = prompt
    running = server_of("words", place)
    before = len(running.text())
    body = {"model": "words", "prompt": value, "stream": stream}
    response = httpx.post(f"{running.url}/v1/completions", json=body, timeout=20)
    whole = not stream or value != "late"
    assert response.status_code == ((400 if owner == "client" else 500) if whole else 200), response.text
    assert named in response.text
    assert "secret" not in response.text
    assert logged(running, before).count("failed on request") == (owner == "model")
