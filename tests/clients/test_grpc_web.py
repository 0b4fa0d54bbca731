"""Clients of gRPC-Web that others wrote, in Node: grpc-web in both forms, Connect's. NODE_CLIENTS names their folder."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferstream import protos
from tests.serving import Running, eventually

FOLDER = Path(os.environ.get("NODE_CLIENTS", "nowhere")).resolve()
SCRIPT = Path(__file__).with_name("grpc_web.mjs")
DESCRIPTORS = Path(protos.__file__).with_name("dataplane.binpb")
CLIENTS = ["grpc-web", "grpc-web-text", "connect-web", "connect-node"]

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules" / "grpc-web").is_dir(),
    reason="needs Node and a folder, named by NODE_CLIENTS, in which npm has installed grpc-web and Connect",
)

Call = Callable[..., dict[str, Any]]


@pytest.fixture(params=CLIENTS)
def call(request: pytest.FixtureRequest, server: Running) -> Call:
    def call(method: str, model: str, text: str = "hello", id: str = "1", **more: Any) -> dict[str, Any]:
        options = {name: more.pop(name) for name in ("leaveAfter", "timeoutMs", "metadata") if name in more}
        value = base64.b64encode(text.encode()).decode()
        tensor = {"name": "text", "datatype": "BYTES", "shape": ["1"], "contents": {"bytesContents": [value]}}
        message = {"modelName": model, "id": id, "inputs": [tensor], "parameters": more}
        values = [request.param, server.url, DESCRIPTORS, method, json.dumps(message), json.dumps(options)]
        ran = subprocess.run(["node", SCRIPT, FOLDER, *values], capture_output=True, timeout=60)
        assert ran.returncode == 0, ran.stderr.decode()
        return json.loads(ran.stdout)

    return call


def texts(found: dict[str, Any]) -> list[str]:
    contents = [response["outputs"][0]["contents"]["bytesContents"][0] for response in found["responses"]]
    return [base64.b64decode(content).decode() for content in contents]


def number(value: int) -> dict[str, str]:
    return {"int64Param": str(value)}


def test_unary_response(call: Call) -> None:
    found = call("ModelInfer", "echo", "grüße 🙂")
    assert (found["code"], texts(found)) == (0, ["grüße 🙂"])


def test_a_stream(call: Call) -> None:
    found = call("ModelStreamInfer", "streaming", items=number(40))
    assert (found["code"], texts(found)) == (0, [f"item {number}" for number in range(40)])


def test_errors(call: Call) -> None:
    found = call("ModelInfer", "nobody")
    assert (found["code"], found["message"].partition(";")[0]) == (5, "Model nobody not found")
    found = call("ModelStreamInfer", "streaming", items=number(3), fail_at=number(2))
    assert (found["code"], texts(found)) == (13, ["item 0", "item 1"])


def test_deadline_exceeded(call: Call, server: Running, request: pytest.FixtureRequest) -> None:
    id = f"late {request.node.name}"
    found = call("ModelInfer", "slow", id=id, seconds=number(60), timeoutMs=500)
    assert found["code"] == 4
    eventually(lambda: server.noted(f"finally {id}"))


def test_disconnect_ends_model(call: Call, server: Running, request: pytest.FixtureRequest) -> None:
    id = f"left {request.node.name}"
    if "grpc-web]" in id or "grpc-web-in" in id:
        pytest.skip("grpc-web shows a binary response only when it is whole")
    delay = {"doubleParam": 0.02}
    found = call("ModelStreamInfer", "streaming", id=id, items=number(10**6), delay=delay, leaveAfter=2)
    assert texts(found)[:2] == ["item 0", "item 1"]
    eventually(lambda: server.noted(f"finally {id}"))


def test_metadata(call: Call) -> None:
    found = call("ModelInfer", "mirror", metadata={"x-custom": "two words"})
    assert texts(found) == ["two words"]
