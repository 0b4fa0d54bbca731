"""
Clients of gRPC and HTTP/2 in other languages, against the server's gRPC port.

GRPC_CLIENTS names a folder with what `make grpc-clients` has built there: `grpc_go`, a client in Go; `node`, where npm
has installed @grpc/grpc-js; `kserve`, an environment with KServe's client. nghttp, h2load and curl are the system's.
A client that is missing is skipped, and the reason says so.
"""

import base64
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse
from tests.certificates import Authority
from tests.serving import Running, eventually, write_model

FOLDER = Path(os.environ.get("GRPC_CLIENTS", "nowhere")).resolve()
HERE = Path(__file__).parent
SERVICE = "/inference.GRPCInferenceService"

pytestmark = pytest.mark.skipif("GRPC_CLIENTS" not in os.environ, reason="`make grpc-clients` runs them")

COMMANDS = {
    "grpc-go": [str(FOLDER / "grpc_go")],
    "grpc-js": ["node", str(HERE / "grpc_octets.mjs"), str(FOLDER / "node")],
}
NEEDED = {
    "grpc-go": (FOLDER / "grpc_go").is_file(),
    "grpc-js": shutil.which("node") is not None
    and (FOLDER / "node" / "node_modules" / "@grpc" / "grpc-js").is_dir(),
    "kserve": (FOLDER / "kserve" / "bin" / "python").is_file(),
    "curl": "HTTP2"
    in subprocess.run(["curl", "--version"], capture_output=True, text=True, check=False).stdout
    if shutil.which("curl")
    else False,
    "nghttp": shutil.which("nghttp") is not None,
    "h2load": shutil.which("h2load") is not None,
}


def need(client: str) -> None:
    if not NEEDED[client]:
        pytest.skip(f"{client} is missing")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clients") / "models"
    for name in ("Echo", "Slow", "Streaming", "Both", "Failing"):
        write_model(folder, name.lower(), f"faulty_models.{name}")
    return folder


@pytest.fixture(scope="module")
def served(models: Path) -> Iterator[Running]:
    running = Running(models)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def encrypted(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("encrypted") / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    options = {"_custom_grpc_server_settings": authority.issue("server")}
    (folder / "settings.json").write_text(json.dumps(options))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


Call = Callable[..., dict[str, Any]]


@pytest.fixture(params=COMMANDS)
def call(request: pytest.FixtureRequest, served: Running) -> Call:
    """Call with messages of a stream, or with one message, through the client in a language."""
    need(request.param)

    def call(
        method: str, *messages: ModelInferRequest, stream: bool = False, **options: Any
    ) -> dict[str, Any]:
        asked = {
            "address": served.grpc,
            "path": f"{SERVICE}/{method}",
            "stream": stream,
            "messages": [base64.b64encode(each.SerializeToString()).decode() for each in messages],
            "metadata": {},
            "seconds": 30,
            "leaveAfter": 0,
            **options,
        }
        # A large message is no argument of a command.
        command = [*COMMANDS[request.param], json.dumps(asked)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        found = json.loads(ran.stdout)
        found["responses"] = [base64.b64decode(response) for response in found["responses"]]
        return found

    return call


def asking(model: str, id: str = "", size: int = 2, **parameters: float | str) -> ModelInferRequest:
    made = ModelInferRequest(model_name=model, id=id)
    made.inputs.add(name="x", datatype="FP32", shape=[size]).contents.fp32_contents.extend([1.5] * size)
    for name, value in parameters.items():
        kind = {int: "int64_param", float: "double_param", str: "string_param"}[type(value)]
        setattr(made.parameters[name], kind, value)
    return made


@pytest.mark.parametrize("size", [1, 20_000])
@pytest.mark.parametrize("gzip", [False, True])
def test_unary_call(call: Call, size: int, gzip: bool) -> None:
    found = call("ModelInfer", asking("echo", "some-id", size), gzip=gzip)
    assert found["code"] == 0, found
    [response] = map(ModelInferResponse.FromString, found["responses"])
    assert response.id == "some-id"
    assert response.outputs[0].contents.fp32_contents == [1.5] * size


def test_server_stream(call: Call) -> None:
    found = call("ModelStreamInfer", asking("streaming", items=50), stream=True)
    assert (found["code"], len(found["responses"])) == (0, 50), found
    ModelStreamInferResponse.FromString(found["responses"][0])


def test_bidirectional_stream(call: Call) -> None:
    found = call("ModelStreamInfer", *(asking("both", f"{number}") for number in range(20)), stream=True)
    assert (found["code"], len(found["responses"])) == (0, 20), found


def test_error_status(call: Call) -> None:
    found = call("ModelInfer", asking("failing", mode="say", words="half of 100% ☺ 😈"))
    assert found["code"] == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "half of 100% ☺ 😈" in found["details"]
    found = call("ModelInfer", asking("nobody"))
    assert found["code"] == grpc.StatusCode.NOT_FOUND.value[0]
    found = call("Nothing", asking("echo"))
    assert found["code"] == grpc.StatusCode.UNIMPLEMENTED.value[0]


def test_deadline_exceeded(call: Call, served: Running) -> None:
    found = call("ModelInfer", asking("slow", f"late-{id(call)}", seconds=60), seconds=0.5)
    assert found["code"] == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
    eventually(lambda: served.noted(f"finally late-{id(call)}"))


def test_cancelled_stream_ends_model(call: Call, served: Running) -> None:
    asked = asking("streaming", f"left-{id(call)}", items=10**6, delay=0.01)
    found = call("ModelStreamInfer", asked, stream=True, leaveAfter=3)
    assert found["code"] == grpc.StatusCode.CANCELLED.value[0]
    eventually(lambda: served.noted(f"finally left-{id(call)}"))


def test_call_over_tls(call: Call, encrypted: Running, authority: Authority) -> None:
    address = f"localhost:{encrypted.grpc_port}"
    found = call("ModelInfer", asking("echo"), address=address, authority=str(authority.pem))
    assert (found["code"], len(found["responses"])) == (0, 1), found


def test_kserve(served: Running) -> None:
    need("kserve")
    command = [FOLDER / "kserve" / "bin" / "python", HERE / "kserve_grpc.py", served.grpc]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found == {"live": True, "ready": True, "model": True, "same": True, "responses": 50}


def test_kserve_with_a_key(models: Path, tmp_path: Path) -> None:
    need("kserve")
    key = f"ifs_k_{secrets.token_urlsafe(32)}"
    entry = {
        "id": "k",
        "principal": "p",
        "sha256": hashlib.sha256(key.encode()).hexdigest(),
        "scopes": ["infer"],
        "models": ["*"],
    }
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"version": 1, "keys": [entry]}))
    running = Running(models, INFERSTREAM_KEYS_FILE=str(keys))
    command = [FOLDER / "kserve" / "bin" / "python", HERE / "kserve_key.py", running.grpc, running.url, key]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert running.stop() == 0, running.text()
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "grpc": [0.0, 1.0, 2.0],
        "grpc without": "UNAUTHENTICATED",
        "rest": [0.0, 1.0, 2.0],
        "rest without": 401,
    }


# Clients of HTTP/2


@pytest.fixture
def message(tmp_path: Path) -> Path:
    """A file with a call's message."""
    file = tmp_path / "message"
    octets = asking("echo").SerializeToString()
    file.write_bytes(b"\0" + len(octets).to_bytes(4, "big") + octets)
    return file


FIELDS = ("content-type: application/grpc", "te: trailers")


@pytest.mark.parametrize("tls", [False, True])
def test_curl(
    served: Running, encrypted: Running, authority: Authority, message: Path, tls: bool, tmp_path: Path
) -> None:
    need("curl")
    heads, body = tmp_path / "heads", tmp_path / "body"
    address = f"https://localhost:{encrypted.grpc_port}" if tls else f"http://{served.grpc}"
    how = ["--http2", "--cacert", str(authority.pem)] if tls else ["--http2-prior-knowledge"]
    fields = [part for field in FIELDS for part in ("-H", field)]
    command = ["curl", "-sS", *how, *fields, "--data-binary", f"@{message}", "-D", heads, "-o", body]
    subprocess.run([*command, f"{address}{SERVICE}/ModelInfer"], timeout=60, check=True)
    assert heads.read_text().startswith("HTTP/2 200")
    assert re.search(r"^grpc-status: 0\s*$", heads.read_text(), re.M), heads.read_text()
    response = ModelInferResponse.FromString(body.read_bytes()[5:])
    assert response.outputs[0].contents.fp32_contents == [1.5, 1.5]


def test_curl_without_grpc_call_is_refused(served: Running) -> None:
    need("curl")
    command = [
        "curl",
        "-sS",
        "--http2-prior-knowledge",
        "-o",
        os.devnull,
        "-w",
        "%{http_version} %{http_code}",
    ]
    ran = subprocess.run(
        [*command, f"http://{served.grpc}/"], capture_output=True, text=True, timeout=60, check=True
    )
    version, code = ran.stdout.split()
    assert version == "2"
    assert code in ("405", "415"), ran.stdout


def test_nghttp(served: Running, message: Path) -> None:
    need("nghttp")
    fields = [part for field in FIELDS for part in ("-H", field)]
    command = [
        "nghttp",
        "-v",
        "-m",
        "20",
        *fields,
        "-d",
        message,
        f"http://{served.grpc}{SERVICE}/ModelInfer",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=True)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout)
    assert plain.count("grpc-status: 0") == 20, plain
    assert "RST_STREAM" not in plain


@pytest.mark.parametrize("streams", [1, 100])
def test_h2load(served: Running, message: Path, streams: int) -> None:
    need("h2load")
    fields = [part for field in FIELDS for part in ("-H", field)]
    load = ["-n", "3000", "-c", "4", "-m", str(streams)]
    command = ["h2load", *load, *fields, "-d", message, f"http://{served.grpc}{SERVICE}/ModelInfer"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "3000 succeeded, 0 failed, 0 errored, 0 timeout" in ran.stdout, ran.stdout
