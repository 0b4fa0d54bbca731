"""Over every transport, a fault of the client names its input and is not logged; one of the model is logged once."""

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
from tests.serving import Running, eventually, write_model

APP = """
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferstream import App

app = App()


@app.model
def add(x: int) -> int:
    return x


@app.model
def total(x: NDArray[np.int64]) -> int:
    return int(x.sum())


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
def ragged(x: int) -> NDArray[np.int64]:
    return [[1], [2, 3]]


@app.model
def raises(x: int) -> int:
    raise ValueError("secret")


@app.model(batch=4)
def fewer(x: list[int]) -> list[int]:
    return x[1:] + [1, 2]


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
from inferstream import MLModel
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


class CLate(Base):
    async def predict_stream(self, requests):
        async for _ in requests:
            yield response()
            raise ValueError("secret")
"""
FAILURES = ("failed on request", "Traceback")
CLASS_NAMES = ("CNone", "COpaque", "CTexts", "CShape", "CRaises", "CLate")


class Result(NamedTuple):
    """Whose fault a call ended with (`client`, `model` or none), and all that came back."""

    owner: str
    said: str


Transport = Callable[[Running, str, list[dict[str, Any]]], Result]


def workers_of(request: pytest.FixtureRequest) -> str:
    return "1" if request.param == "in workers" else "0"


WAYS = ["in the server", "in workers"]


@pytest.fixture(scope="module", params=WAYS)
def functions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("owners") / "code"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    server = Running(folder / "app.py", INFERSTREAM_PARALLEL_WORKERS=workers_of(request))
    yield server
    server.stop()


@pytest.fixture(scope="module", params=WAYS)
def classes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("owners") / "models"
    for name in CLASS_NAMES:
        write_model(folder, name, f"owners_of_{name.lower()}.{name}", CLASSES, name=name)
    server = Running(folder, within=60, INFERSTREAM_PARALLEL_WORKERS=workers_of(request))
    yield server
    server.stop()


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


def logged(running: Running, before: int) -> str:
    return running.text()[before:]


@pytest.mark.parametrize("model", ["add", "total"])
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("wrong", WRONG_TENSORS)
def test_a_wrong_input_is_named_and_not_logged(
    functions: Running, wrong: str, transport: str, model: str
) -> None:
    tensors, named = WRONG_TENSORS[wrong]
    before = len(functions.text())
    found = TRANSPORTS[transport](functions, model, tensors)
    assert (found.owner, named in found.said) == ("client", True), found
    assert not any(mark in logged(functions, before) for mark in FAILURES)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_unknown_model_is_named_and_not_logged(functions: Running, transport: str) -> None:
    before = len(functions.text())
    if transport == "WebSocket":
        with pytest.raises(InvalidStatus, match="404"):
            TRANSPORTS[transport](functions, "zz", [x()])
    else:
        found = TRANSPORTS[transport](functions, "zz", [x()])
        assert (found.owner, "zz" in found.said) == ("client", True), found
    assert not any(mark in logged(functions, before) for mark in FAILURES)


MODEL_FAULTS = {
    "none": "output",
    "another": "output",
    "opaque": "output",
    "ragged": "output",
    "raises": "log says why",
    "fewer": "items",
    "late": "log says why",
    "odd": "output",
    "CNone": "CNone",
    "COpaque": "output",
    "CTexts": "output",
    "CShape": "output",
    "CRaises": "log says why",
    "CLate": "log says why",
}
STREAMED = ("late", "odd", "CLate")
STREAMS = ("SSE", "WebSocket", "gRPC stream")


def model_fault(running: Running, transport: str, model: str) -> None:
    before = len(running.text())
    found = TRANSPORTS[transport](running, model, [x()])
    assert (found.owner, MODEL_FAULTS[model] in found.said) == ("model", True), found
    assert "secret" not in found.said
    eventually(lambda: f"model {model} failed on request" in logged(running, before))
    assert logged(running, before).count("failed on request") == 1


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("model", [name for name in MODEL_FAULTS if not name.startswith("C")])
def test_a_fault_of_a_function_is_logged_once(functions: Running, model: str, transport: str) -> None:
    if model not in STREAMED or transport in STREAMS:
        model_fault(functions, transport, model)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("model", CLASS_NAMES)
def test_a_fault_of_a_class_is_logged_once(classes: Running, model: str, transport: str) -> None:
    if model not in STREAMED or transport in STREAMS:
        model_fault(classes, transport, model)


WRONG_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({}, "x"),
    "unknown": ({"x": 1, "zz": 1}, "zz"),
    "a text": ({"x": "a"}, "x"),
    "a fraction": ({"x": 1.5}, "x"),
    "null": ({"x": None}, "x"),
    "an object": ({"x": {}}, "x"),
    "beyond 64 bits": ({"x": 10**30}, "x"),
}


@pytest.mark.parametrize("model", ["add", "total"])
@pytest.mark.parametrize("transport", ARGUMENTS)
@pytest.mark.parametrize("wrong", WRONG_ARGUMENTS)
def test_a_wrong_argument_is_named_and_not_logged(
    functions: Running, wrong: str, transport: str, model: str
) -> None:
    arguments, named = WRONG_ARGUMENTS[wrong]
    before = len(functions.text())
    found = ARGUMENTS[transport](functions, model, arguments)
    assert found.owner in ("client", "either"), found
    assert named in found.said
    assert not any(mark in logged(functions, before) for mark in FAILURES)


@pytest.mark.parametrize("transport", ARGUMENTS)
@pytest.mark.parametrize("model", [name for name in MODEL_FAULTS if not name.startswith("C")])
def test_a_fault_of_a_function_with_arguments_is_logged_once(
    functions: Running, model: str, transport: str
) -> None:
    if model in STREAMED and transport != "generate_stream":
        return
    before = len(functions.text())
    found = ARGUMENTS[transport](functions, model, {"x": [1] if model == "fewer" else 1})
    assert found.owner in ("model", "either"), found
    assert MODEL_FAULTS[model] in found.said
    assert "secret" not in found.said
    eventually(lambda: "failed on request" in logged(functions, before))
    assert logged(functions, before).count("failed on request") == 1


@pytest.mark.parametrize(
    ("prompt", "owner", "named"),
    [
        (3, "client", "prompt"),
        (None, "client", "prompt"),
        ("fail", "model", "log says why"),
        ("late", "model", "log says why"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_openai_clients_get_the_owner(
    functions: Running, prompt: Any, owner: str, named: str, stream: bool
) -> None:
    before = len(functions.text())
    body = {"model": "words", "prompt": prompt, "stream": stream}
    response = httpx.post(f"{functions.url}/v1/completions", json=body, timeout=20)
    whole = not stream or prompt != "late"
    assert response.status_code == ((400 if owner == "client" else 500) if whole else 200), response.text
    assert named in response.text
    assert "secret" not in response.text
    assert logged(functions, before).count("failed on request") == (owner == "model")
