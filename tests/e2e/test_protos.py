"""`/proto`: a client gets the .proto files from the server, compiles them, and calls the server with the result."""

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass

from tests.serving import Running, eventually

APP = """
from collections.abc import AsyncIterator
from inferstream import App

app = App()

@app.model
async def words(prompt: str) -> AsyncIterator[str]:
    '''Say each word.'''
    for word in prompt.split():
        yield word
"""

LATER = '''
@app.model
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b
'''


@pytest.fixture(scope="module", params=[0, 2], ids=["in-process", "workers"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("protos") / "app"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text(
        json.dumps({"root_path": "/behind", "parallel_workers": request.param, "frontends": 2})
    )
    running = Running(folder, "--reload", target=str(folder / "app.py"))
    yield running
    assert running.stop() == 0, running.text()


def listed(served: Running) -> dict[str, dict]:
    response = httpx.get(f"{served.url}/proto")
    assert response.headers["content-type"] == "application/json"
    return {file["name"]: file for file in response.json()}


def described(served: Running, name: str, folder: Path) -> DescriptorPool:
    """What protoc makes of a file of the server."""
    protoc = pytest.importorskip("grpc_tools.protoc")
    response = httpx.get(f"{served.url}/proto/{name}")
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    (folder / name).write_text(response.text, "utf-8")
    out = folder / "out.binpb"
    assert protoc.main(["", f"-I{folder}", f"--descriptor_set_out={out}", name]) == 0
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(out.read_bytes()).file:
        pool.Add(file)
    return pool


def call(
    served: Running, pool: DescriptorPool, service: str, method: str, request: dict, **metadata: str
) -> list[dict]:
    """Call an RPC by its descriptors alone, and return the responses as JSON."""
    found = pool.FindServiceByName(service).FindMethodByName(method)
    message = ParseDict(request, GetMessageClass(found.input_type)())
    with grpc.insecure_channel(served.grpc) as channel:
        start = channel.stream_stream if found.client_streaming else channel.unary_stream
        rpc = start(
            f"/{service}/{method}",
            lambda sent: sent.SerializeToString(),
            GetMessageClass(found.output_type).FromString,
        )
        sent = iter([message]) if found.client_streaming else message
        return [MessageToDict(each) for each in rpc(sent, timeout=20, metadata=[*metadata.items()])]


SERVICE = "inference.GRPCInferenceService"
REQUEST = {
    "modelName": "words",
    "inputs": [
        {
            "name": "prompt",
            "datatype": "BYTES",
            "shape": [1],
            "contents": {"bytesContents": ["dHdvIHdvcmRz"]},
        }
    ],
}


def test_list_shows_files_with_services_and_paths(served: Running) -> None:
    found = listed(served)
    assert found["dataplane.proto"] == {
        "name": "dataplane.proto",
        "services": [SERVICE],
        "path": "/behind/proto/dataplane.proto",
    }
    assert found["inferstream.proto"]["services"] == ["inferstream.App"]
    for name in found:
        assert httpx.get(f"{served.url}/proto/{name}").text.partition("\n")[0].startswith("//")


def test_protocol_client_is_generated_from_its_file(served: Running, tmp_path: Path) -> None:
    pool = described(served, "dataplane.proto", tmp_path)
    items = call(served, pool, SERVICE, "ModelStreamInfer", REQUEST)
    assert [item["outputs"][0]["name"] for item in items] == ["output", "output"]
    pool = described(served, "grpc_service.proto", tmp_path)
    items = call(served, pool, SERVICE, "ModelStreamInfer", REQUEST, **{"x-stream-dialect": "triton"})
    assert [item["inferResponse"]["outputs"][0]["name"] for item in items[:2]] == ["output", "output"]


def test_missing_file_lists_available_ones(served: Running) -> None:
    response = httpx.get(f"{served.url}/proto/words.proto")
    assert response.status_code == 404
    assert response.json()["error"].startswith(
        'There is no file "words.proto". The files are: dataplane.proto, '
    )
    assert httpx.post(f"{served.url}/proto").status_code == 405


def test_typed_files_follow_the_models(served: Running, tmp_path: Path) -> None:
    pool = described(served, "inferstream.proto", tmp_path)
    asked = {"prompt": "two words"}
    assert call(served, pool, "inferstream.App", "PredictWords", asked) == [
        {"result": "two"},
        {"result": "words"},
    ]
    app = served.folder / "app.py"
    app.write_text(APP + LATER)
    # Each front end learns of it by itself.
    for _ in range(10):
        eventually(lambda: "PredictAdd" in httpx.get(f"{served.url}/proto/inferstream.proto").text, 30)
    pool = described(served, "inferstream.proto", tmp_path)
    assert call(served, pool, "inferstream.App", "PredictAdd", {"a": 41}) == [{"result": "42"}]
