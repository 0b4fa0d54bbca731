"""gRPC's client for Node against an app, with the exported `.proto` file. NODE_CLIENTS names its folder."""

import base64
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serving import SERVER, Running, eventually

FOLDER = Path(os.environ.get("NODE_CLIENTS", "nowhere")).resolve()
SCRIPT = Path(__file__).with_name("grpc_js.mjs")
APP = Path(__file__).parents[1] / "e2e" / "typed_app.py"
SERVICE = "inferstream.App"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules" / "@grpc" / "grpc-js").is_dir(),
    reason="needs Node and a folder, named by NODE_CLIENTS, in which npm has installed @grpc/grpc-js",
)

Call = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def typed(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    app = tmp_path_factory.mktemp("typed") / "app" / "typed_app.py"
    app.parent.mkdir()
    shutil.copy(APP, app)
    subprocess.run([*SERVER, "proto", "typed_app.py"], cwd=app.parent, timeout=60, check=True)
    running = Running(app, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def call(typed: Running) -> Call:
    def call(method: str, *messages: dict[str, Any], leave_after: int = 0) -> dict[str, Any]:
        proto = typed.folder.with_suffix(".proto")
        command = [
            "node",
            SCRIPT,
            FOLDER,
            proto,
            typed.grpc,
            SERVICE,
            method,
            json.dumps(messages),
            str(leave_after),
        ]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)

    return call


def results(found: dict[str, Any]) -> list[Any]:
    assert found["code"] == 0, found
    return [response["result"] for response in found["responses"]]


def test_every_call_kind(call: Call) -> None:
    assert results(call("PredictAdd", {"a": 1, "b": 5})) == [6]
    assert results(call("PredictAdd", {"a": 1})) == [2]
    assert results(call("PredictGenerate", {"prompt": "grüße 🙂"})) == ["grüße", "🙂"]
    assert results(call("PredictTotal", {"start": 1}, {"numbers": 2}, {"numbers": 3})) == [6]
    assert results(call("PredictDouble", {"numbers": 2}, {"numbers": 3})) == [4, 6]


def test_bytes_and_arrays(call: Call) -> None:
    said = json.loads(results(call("PredictEcho", {"text": "", "raw": {"base64": "/wA="}}))[0])
    assert (said["text"], said["raw"]) == ("", "ff00")
    data = base64.b64encode(struct.pack("<3f", 1, 2, 3)).decode()
    [found] = results(
        call("PredictMyArray", {"x": {"shape": [1, 3], "dtype": "float", "data": {"base64": data}}})
    )
    assert (found["shape"], found["dtype"]) == ([1, 3], "double")
    assert struct.unpack("<3d", base64.b64decode(found["data"])) == (2, 4, 6)


def test_errors_have_grpc_status(call: Call) -> None:
    found = call("PredictAdd", {"b": 1})
    assert (found["code"], found["details"]) == (3, 'argument "a" is missing: field 1')
    found = call("PredictGenerate", {"prompt": "a b", "fail_at": 1})
    assert (found["code"], [each["result"] for each in found["responses"]]) == (5, ["a"])


def test_cancel_runs_finally(call: Call, typed: Running) -> None:
    found = call("PredictEndless", {"tag": "node"}, leave_after=2)
    assert (found["code"], len(found["responses"])) == (1, 2)
    eventually(lambda: typed.noted("endless closed: node"))
