"""Settings of the server that only show while it serves."""

import gzip
import json
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, fp32, write_model

REPOSITORY = """
from pathlib import Path
from mlserver import ModelSettings
from mlserver.errors import ModelNotFound
from mlserver.repository import ModelRepository

class Numbered(ModelRepository):
    \"\"\"As many models as it is told, none of which has a file.\"\"\"

    def __init__(self, root, count, prefix="model"):
        assert Path(root).is_dir()
        self._models = [
            ModelSettings(name=f"{prefix}-{i}", implementation="answering.Echo", parameters={"version": str(i)})
            for i in range(count)
        ]

    async def list(self):
        return self._models

    async def find(self, name):
        found = [model for model in self._models if model.name == name]
        if not found:
            raise ModelNotFound(name)
        return found

class Wrong:
    pass

class Raising(ModelRepository):
    def __init__(self, root):
        raise ConnectionError("no bucket\\nof this name")

    async def list(self):
        return []

    async def find(self, name):
        return []
"""


def repository(root: Path, **settings: object) -> Path:
    """A folder without model settings, whose models a repository of its own makes up."""
    folder = root / "models"
    folder.mkdir()
    (folder / "numbered.py").write_text(REPOSITORY)
    echo = (Path(__file__).parents[1] / "faulty_models.py").read_text()
    (folder / "answering.py").write_text(echo)
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def test_models_load_from_custom_repository(serve, tmp_path: Path) -> None:
    folder = repository(
        tmp_path,
        model_repository_implementation="numbered.Numbered",
        model_repository_implementation_args={"count": 2, "prefix": "made"},
    )
    server = serve(folder)
    assert server.infer("made-1", fp32([1.0])).json()["outputs"][0]["data"] == [1.0]
    index = httpx.post(f"{server.url}/v2/repository/index").json()
    assert {(model["name"], model["version"], model["state"]) for model in index} == {
        ("made-0", "0", "READY"),
        ("made-1", "1", "READY"),
    }
    change = f"{server.url}/v2/repository/models"
    assert httpx.post(f"{change}/made-0/unload").status_code == 200
    assert server.infer("made-0", fp32([1.0])).status_code == 404
    assert httpx.post(f"{change}/made-0/load").status_code == 200
    assert server.infer("made-0", fp32([1.0])).status_code == 200
    assert httpx.post(f"{change}/nobody/load").status_code == 404


@pytest.mark.parametrize(
    ("implementation", "args", "reason"),
    [
        ("numbered.Wrong", {}, "is not a ModelRepository"),
        ("numbered.Nobody", {}, "has no class Nobody"),
        ("nowhere.Numbered", {}, "nowhere"),
        ("numbered.Numbered", {}, "count"),
        ("numbered.Raising", {}, "no bucket of this name"),
    ],
)
def test_failing_repository_class_aborts_startup_with_one_line(
    tmp_path: Path, implementation: str, args: dict, reason: str
) -> None:
    folder = repository(
        tmp_path,
        model_repository_implementation=implementation,
        model_repository_implementation_args=args,
    )
    running = Running(folder, wait=False)
    assert running.process.wait(20) == 1
    (line,) = running.text().splitlines()
    assert line.startswith("error: ")
    assert reason in line


def raw(server: Running, size: int) -> httpx.Response:
    url = f"{server.url}/v2/models/echo/infer"
    with httpx.stream("POST", url, json=fp32([1.0] * size), headers={"Accept-Encoding": "gzip"}) as answer:
        body = b"".join(answer.iter_raw())
    if answer.headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    assert json.loads(body)["outputs"][0]["data"] == [1.0] * size
    return answer


@pytest.mark.parametrize(
    ("settings", "small", "large"),
    [
        ({}, None, "gzip"),
        ({"gzip_enabled": False}, None, None),
        ({"gzip_min_bytes": 0}, "gzip", "gzip"),
    ],
    ids=str,
)
def test_compression_follows_settings(start, tmp_path: Path, settings: dict, small, large) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    (folder / "settings.json").write_text(json.dumps(settings))
    server = start(folder)
    assert raw(server, 1).headers.get("content-encoding") == small
    assert raw(server, 1000).headers.get("content-encoding") == large


@pytest.mark.parametrize(
    "settings",
    [
        {"grpc_max_message_length": 4096},
        {"_custom_grpc_server_settings": {"grpc.max_receive_message_length": 4096}},
    ],
    ids=["setting", "channel argument"],
)
def test_larger_messages_are_refused(start, tmp_path: Path, settings: dict) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    (folder / "settings.json").write_text(json.dumps(settings))
    server = start(folder)
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        for size, code in ((10, None), (5000, grpc.StatusCode.RESOURCE_EXHAUSTED), (10, None)):
            message = messages.ModelInferRequest(model_name="echo", raw_input_contents=[bytes(4 * size)])
            message.inputs.add(name="x", datatype="FP32", shape=[size])
            if code is None:
                assert stub.ModelInfer(message, timeout=10).outputs[0].shape == [size]
                continue
            with pytest.raises(grpc.RpcError) as refused:
                stub.ModelInfer(message, timeout=10)
            assert refused.value.code() is code


CORS = {
    "allow_origin_regex": r"https://[a-z]+\.example",
    "allow_credentials": True,
    "allow_methods": ["POST"],
    "allow_headers": ["x-mine"],
    "expose_headers": ["x-theirs"],
    "max_age": 7,
}


def test_every_cross_origin_rule_reaches_the_browser(start, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "streaming", "faulty_models.Streaming")
    (folder / "settings.json").write_text(json.dumps({"cors_settings": CORS}))
    server = start(folder)
    url = f"{server.url}/v2/models/echo/infer"
    page = {"Origin": "https://page.example"}
    asked = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-mine"}
    allowed = httpx.options(url, headers=asked)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://page.example"
    assert allowed.headers["access-control-allow-credentials"] == "true"
    assert allowed.headers["access-control-allow-methods"] == "POST"
    assert "x-mine" in allowed.headers["access-control-allow-headers"]
    assert allowed.headers["access-control-max-age"] == "7"
    for refused in (
        {**asked, "Access-Control-Request-Method": "DELETE"},
        {**asked, "Access-Control-Request-Headers": "x-other"},
        {**asked, "Origin": "https://page.example.org"},
    ):
        assert httpx.options(url, headers=refused).status_code == 400
    for model, action in (("echo", "infer"), ("streaming", "infer_stream")):
        answer = server.infer(model, {**fp32([1.0]), "id": "1"}, action, headers=page)
        assert answer.status_code == 200
        assert answer.headers["access-control-expose-headers"].startswith("x-theirs, grpc-message")
        assert answer.headers["access-control-allow-origin"] == "https://page.example"
