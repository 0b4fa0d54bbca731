"""Shared memory that clients take away, swap, share out wrongly or describe wrongly, while calls use it."""

import hashlib
import json
import os
import secrets
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest

from inferstream.protos.dataplane_pb2 import (
    ModelInferRequest,
    ModelStreamInferResponse,
    SystemSharedMemoryRegisterRequest,
    SystemSharedMemoryStatusRequest,
    SystemSharedMemoryUnregisterRequest,
)
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.grpc_web import call
from tests.serving import Running, eventually, write_model

pytestmark = pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="this system has no /dev/shm")

SIZE = 2**20
VALUES = np.arange(SIZE // 4, dtype=np.float32)
Made = Callable[[], Path]


@pytest.fixture(scope="module", params=[(0, 1), (2, 2)], ids=["process", "workers-and-frontends"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    workers, front_ends = request.param
    folder = tmp_path_factory.mktemp("faults") / "models"
    for name, implementation in (("echo", "Echo"), ("late", "Late")):
        write_model(folder, name, f"faulty_models.{implementation}", name=name, parallel_workers=workers)
    (folder / "settings.json").write_text(json.dumps({"frontends": front_ends, "access_log": True}))
    running = Running(folder, within=60)
    yield running
    assert running.stop() == 0, running.text()
    assert "Traceback" not in running.text()


@pytest.fixture
def made() -> Iterator[Made]:
    """Makes shared memory of two tensors, the first of which has the values."""
    files: list[Path] = []

    def make() -> Path:
        files.append(Path("/dev/shm") / f"tests-{uuid.uuid4().hex}")
        files[-1].write_bytes(VALUES.tobytes() + bytes(SIZE))
        return files[-1]

    yield make
    for file in files:
        file.unlink()  # fails if the server has


def region(server: Running, file: Path, name: str | None = None, **more: Any) -> httpx.Response:
    url = f"{server.url}/v2/systemsharedmemory/region/{name or file.name}/register"
    return httpx.post(url, json={"key": f"/{file.name}", "byte_size": 2 * SIZE, **more}, timeout=20)


def forget(server: Running, name: str) -> None:
    url = f"{server.url}/v2/systemsharedmemory/region/{name}/unregister"
    assert httpx.post(url, timeout=20).status_code == 200


def place(name: object, size: object = SIZE, offset: object = 0) -> dict[str, Any]:
    place = {"shared_memory_region": name, "shared_memory_byte_size": size, "shared_memory_offset": offset}
    return {"parameters": place}


def asking(name: object, model: str = "echo", into: dict[str, Any] | None = None, **more: Any) -> dict:
    tensor = {"name": "x", "shape": [SIZE // 4], "datatype": "FP32", **place(name, **more)}
    return {"inputs": [tensor], "outputs": [{"name": "x", **(into or place(name, offset=SIZE))}]}


def test_calls_continue_while_client_truncates_memory(server: Running, made: Made) -> None:
    file = made()
    assert region(server, file).status_code == 200
    done, answered = threading.Event(), Counter()

    def shorten() -> None:
        while not done.is_set():
            for size in (0, 4096, SIZE + 1, 2 * SIZE):
                os.truncate(file, size)

    def call(_: int) -> None:
        answer = server.infer("echo", asking(file.name))
        answered[answer.status_code] += 1
        if answer.status_code != 200:
            assert "shorter than it was" in answer.json()["error"]
            assert file.name not in answer.text

    with ThreadPoolExecutor(4) as pool:
        busy = pool.submit(shorten)
        try:
            for _ in pool.map(call, range(60)):
                pass
        finally:
            done.set()
        busy.result()
    assert {*answered} <= {200, 400}
    file.write_bytes(VALUES.tobytes() + bytes(SIZE))
    assert server.infer("echo", asking(file.name)).status_code == 200
    assert file.read_bytes()[SIZE:] == VALUES.tobytes()
    forget(server, file.name)
    server.probe()


def test_running_call_keeps_its_memory(server: Running, made: Made) -> None:
    first, other = made(), made()
    assert region(server, first, "swapped").status_code == 200
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(server.infer, "late", asking("swapped"))
        eventually(lambda: server.noted("start"))
        forget(server, "swapped")
        assert region(server, other, "swapped").status_code == 200
        assert call.result().status_code == 200
    assert first.read_bytes()[SIZE:] == VALUES.tobytes()
    assert not any(other.read_bytes()[SIZE:])
    forget(server, "swapped")


WRONG = [
    {"size": 2 * SIZE + 1},
    {"offset": 2 * SIZE},
    {"offset": 2**63 - 1},
    {"offset": 2**63, "size": 2**63},
    {"offset": 2**64 - SIZE, "size": 2 * SIZE},
    {"offset": -4},
    {"size": -1},
    {"size": 1.5},
    {"size": True},
    {"size": None},
    {"size": "16"},
    {"size": [SIZE]},
    {"size": SIZE - 4},
    {"name": "nobody"},
    {"name": 7},
    {"name": ""},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_invalid_region_range_is_refused(server: Running, made: Made, wrong: dict) -> None:
    file = made()
    assert region(server, file).status_code == 200
    name, described = wrong.get("name", file.name), {key: wrong[key] for key in wrong if key != "name"}
    answers = [server.infer("echo", asking(name, **described, into=place(file.name, offset=SIZE)))]
    if wrong != {"size": SIZE - 4}:
        answers.append(server.infer("echo", asking(file.name, into=place(name, **described))))
    for answer in answers:
        assert (answer.status_code, file.name in answer.text) == (400, False), answer.text
    assert not any(file.read_bytes()[SIZE:])
    forget(server, file.name)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int64_param", -1),
        ("int64_param", 2**63 - 1),
        ("uint64_param", 2**64 - 1),
        ("double_param", 4.0),
        ("string_param", "4"),
        ("bool_param", True),
    ],
)
def test_invalid_region_range_is_refused_over_grpc(
    server: Running, made: Made, kind: str, value: object
) -> None:
    file = made()
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        named = SystemSharedMemoryRegisterRequest(name=file.name, key=file.name, byte_size=2 * SIZE)
        stub.SystemSharedMemoryRegister(named)
        for field in ("shared_memory_byte_size", "shared_memory_offset"):
            message = ModelInferRequest(model_name="echo")
            tensor = message.inputs.add(name="x", datatype="FP32", shape=[SIZE // 4])
            tensor.parameters["shared_memory_region"].string_param = file.name
            tensor.parameters["shared_memory_byte_size"].int64_param = SIZE
            setattr(tensor.parameters[field], kind, value)
            with pytest.raises(grpc.RpcError) as refused:
                stub.ModelInfer(message)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert file.name not in refused.value.details()
        stub.SystemSharedMemoryUnregister(SystemSharedMemoryUnregisterRequest(name=file.name))


def test_refused_region_is_in_access_log(server: Running) -> None:
    def refusals() -> int:
        return server.text().count("infer echo: invalid, ")

    before = refusals()
    assert server.infer("echo", asking("nobody")).status_code == 400
    message = ModelInferRequest(model_name="echo")
    tensor = message.inputs.add(name="x", datatype="FP32", shape=[4])
    tensor.parameters["shared_memory_region"].string_param = "nobody"
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError):
        GRPCInferenceServiceStub(channel).ModelInfer(message)
    eventually(lambda: refusals() == before + 2)


@pytest.mark.parametrize(
    "key", ["/../etc/passwd", "../../etc/passwd", "/etc/passwd", "//x", "..", "", "a\0b"]
)
def test_key_path_traversal_is_refused(server: Running, made: Made, key: str) -> None:
    refused = region(server, made(), "elsewhere", key=key, byte_size=1)
    assert refused.status_code == 400
    assert not any(word in refused.text for word in ("passwd", "/dev/shm", "Errno"))


@pytest.mark.parametrize("offset", [-1, 2**63, 2**64 - 1, "0", 0.5, None])
def test_region_cannot_exceed_its_memory(server: Running, made: Made, offset: object) -> None:
    file = made()
    answer = region(server, file, offset=offset)
    assert (answer.status_code, file.name in answer.text) == (400, False), answer.text
    assert region(server, file, byte_size=2 * SIZE + 1).status_code == 400
    assert region(server, file, byte_size=2**64).status_code == 400


def test_regions_are_counted_and_files_closed(server: Running, made: Made) -> None:
    file, most = made(), 1024

    def opened() -> int:
        files = [*Path(f"/proc/{server.process.pid}/fd").iterdir()]
        return sum(str(file) == os.readlink(each) for each in files if each.is_symlink())

    with httpx.Client(base_url=f"{server.url}/v2/systemsharedmemory", timeout=20) as client:
        body = {"key": file.name, "byte_size": 4}
        answers = Counter(
            client.post(f"/region/r{number}/register", json=body).status_code for number in range(most + 2)
        )
        assert answers == {200: most, 400: 2}
        assert opened() == most
        assert client.post("/unregister").status_code == 200
        assert client.get("/status").json() == []
    eventually(lambda: opened() == 0)
    server.probe()


def served_with_keys(tmp_path: Path, *principals: str) -> tuple[Running, dict[str, dict[str, str]]]:
    """A server with two front ends and a key for each principal, and the headers of each."""
    folder = tmp_path / "models"
    keys = {who: f"ifs_{who}_{secrets.token_urlsafe(32)}" for who in principals}
    entries = [
        {
            "id": who,
            "principal": who,
            "sha256": hashlib.sha256(key.encode()).hexdigest(),
            "scopes": ["metrics"] if who == "eve" else ["infer", "stream"],
            "models": ["*"],
        }
        for who, key in keys.items()
    ]
    write_model(folder, "echo", "faulty_models.Echo", name="echo")
    (tmp_path / "keys.json").write_text(json.dumps({"version": 1, "keys": entries}))
    settings = {"keys_file": str(tmp_path / "keys.json"), "frontends": 2}
    (folder / "settings.json").write_text(json.dumps(settings))
    return Running(folder, within=60), {who: {"authorization": f"Bearer {keys[who]}"} for who in keys}


def test_principal_has_quarter_of_regions_over_grpc_web(tmp_path: Path, made: Made) -> None:
    server, headers = served_with_keys(tmp_path, "ann", "bob")
    keys = {"ann": made().name, "bob": made().name}

    def register(who: str, name: str) -> int:
        request = SystemSharedMemoryRegisterRequest(name=name, key=keys[who], byte_size=4)
        return call(
            server.url, "SystemSharedMemoryRegister", request.SerializeToString(), **headers[who]
        ).status

    share, refused = 256, grpc.StatusCode.INVALID_ARGUMENT.value[0]
    statuses = Counter(register("ann", f"r{number}") for number in range(share + 1))
    assert statuses == {0: share, refused: 1}
    assert register("bob", "his") == 0
    assert server.stop() == 0


def test_regions_are_private_to_their_principal(tmp_path: Path, made: Made) -> None:
    file = made()
    server, headers = served_with_keys(tmp_path, "ann", "bob", "eve")
    url = f"{server.url}/v2/systemsharedmemory"

    def post(who: str, path: str, **body: Any) -> httpx.Response:
        return httpx.post(f"{url}{path}", json=body, headers=headers[who], timeout=20)

    assert post("eve", "/region/r/register", key=file.name, byte_size=2 * SIZE).status_code == 403
    assert post("ann", "/region/r/register", key=file.name, byte_size=2 * SIZE).status_code == 200
    assert server.infer("echo", asking("r"), headers=headers["ann"]).status_code == 200
    refused = server.infer("echo", asking("r"), headers=headers["bob"])
    assert (refused.status_code, file.name in refused.text) == (400, False)
    assert post("bob", "/unregister").status_code == 200
    assert httpx.get(f"{url}/status", headers=headers["bob"]).json() == []
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        for who, names in (("ann", ["r"]), ("bob", [])):
            metadata = [*headers[who].items()]
            status = stub.SystemSharedMemoryStatus(SystemSharedMemoryStatusRequest(), metadata=metadata)
            assert [*status.regions] == names
        metadata = [*headers["ann"].items()]
        named = SystemSharedMemoryRegisterRequest(name="of-grpc", key=file.name, byte_size=2 * SIZE)
        stub.SystemSharedMemoryRegister(named, metadata=metadata)
        message = ModelInferRequest(model_name="echo")
        tensor = message.inputs.add(name="x", datatype="FP32", shape=[4])
        tensor.parameters["shared_memory_region"].string_param = "of-grpc"
        tensor.parameters["shared_memory_byte_size"].int64_param = 16
        assert stub.ModelInfer(message, metadata=metadata).raw_output_contents == [VALUES[:4].tobytes()]
        metadata = [*headers["bob"].items(), ("x-stream-dialect", "triton")]
        with pytest.raises(grpc.RpcError, match="no region of this name"):
            stub.ModelInfer(message, metadata=metadata)
        stream = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            ModelInferRequest.SerializeToString,
            ModelStreamInferResponse.FromString,
        )
        (answer,) = stream(iter([message]), metadata=metadata, timeout=20)
        assert "no region of this name" in answer.error_message
    refused = post("bob", "/region/r/register", key=file.name, byte_size=8)
    assert (refused.status_code, "belongs to another principal" in refused.text) == (400, True)
    assert post("bob", "/region/r/register", key=made().name, byte_size=8).status_code == 200
    assert server.infer("echo", asking("r"), headers=headers["ann"]).status_code == 200
    assert server.stop() == 0
