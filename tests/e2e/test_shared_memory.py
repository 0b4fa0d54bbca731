"""Tensors in system shared memory, by Triton's clients: in this process, in workers, over several front ends."""

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import numpy as np
import pytest

pytest.importorskip("tritonclient")

import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException, serialize_byte_tensor
from tritonclient.utils import shared_memory as memory

from tests.serving import Running, write_model

pytestmark = pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="this system has no /dev/shm")

CODE = (Path(__file__).parents[1] / "faulty_models.py").read_text()
SIZE = 4 * 2**20
VALUES = np.arange(SIZE // 4, dtype=np.float32)


def started(folder: Path, workers: int = 0, **settings: Any) -> Running:
    write_model(folder, "echo", "faulty_models.Echo", CODE, name="echo", parallel_workers=workers)
    (folder / "settings.json").write_text(json.dumps(settings))
    return Running(folder, within=60)


@pytest.fixture(scope="module", params=[(0, 1), (2, 1), (0, 2)], ids=["process", "workers", "frontends"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    workers, front_ends = request.param
    running = started(tmp_path_factory.mktemp("shared"), workers, frontends=front_ends)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def region() -> Iterator[Any]:
    handle = memory.create_shared_memory_region("region", f"/tests-{uuid.uuid4().hex}", 2 * SIZE)
    memory.set_shared_memory_region(handle, [VALUES])
    yield handle
    memory.destroy_shared_memory_region(handle)


@pytest.fixture(params=[triton_http, triton_grpc], ids=["http", "grpc"])
def client(request: pytest.FixtureRequest, server: Running) -> Iterator[Any]:
    address = server.grpc if request.param is triton_grpc else f"127.0.0.1:{server.http_port}"
    made = request.param.InferenceServerClient(address)
    made.library = request.param
    yield made
    made.unregister_system_shared_memory()
    made.close()


def key_of(handle: Any) -> str:
    return str(handle._shm_key)


def given(
    library: Any, size: int = SIZE, offset: int = 0, datatype: str = "FP32", count: int = SIZE // 4
) -> Any:
    tensor = library.InferInput("x", [count], datatype)
    tensor.set_shared_memory("data", size, offset)
    return tensor


def wanted(library: Any, size: int = SIZE, offset: int = SIZE) -> Any:
    output = library.InferRequestedOutput("x")
    output.set_shared_memory("data", size, offset)
    return output


def test_large_tensors_use_region_for_input_and_output(client: Any, region: Any) -> None:
    library = client.library
    client.register_system_shared_memory("data", key_of(region), 2 * SIZE)
    for _ in range(3):  # over whichever front end
        answer = client.infer("echo", [given(library)], outputs=[wanted(library)])
        assert memory.get_contents_as_numpy(region, np.float32, [SIZE // 4], SIZE)[-1] == VALUES[-1]
        memory.set_shared_memory_region(region, [np.zeros(1, np.float32)], SIZE)
    output = answer.get_output("x")
    said = output["parameters"] if library is triton_http else output.parameters
    assert "shared_memory_region" in said
    assert client.infer("echo", [given(library)]).as_numpy("x").tolist() == VALUES.tolist()


def test_strings_have_wire_format_in_region(client: Any, region: Any) -> None:
    library = client.library
    texts = np.array(["a", "", "ä" * 40], dtype=object)
    memory.set_shared_memory_region(region, [serialize_byte_tensor(texts)], 64)
    client.register_system_shared_memory("data", key_of(region), 2 * SIZE)
    size = sum(4 + len(text.encode()) for text in texts)
    answer = client.infer("echo", [given(library, size, 64, "BYTES", 3)])
    assert [each.decode() for each in answer.as_numpy("x")] == [*texts]


def test_region_is_listed_until_unregistered(client: Any, region: Any) -> None:
    client.register_system_shared_memory("data", key_of(region), SIZE, 16)
    status = client.get_system_shared_memory_status("data")
    (only,) = status if isinstance(status, list) else status.regions.values()
    fields = (
        only if isinstance(only, dict) else {name: getattr(only, name) for name in ("offset", "byte_size")}
    )
    assert (fields["offset"], fields["byte_size"]) == (16, SIZE)
    with pytest.raises(InferenceServerException, match="registered already"):
        client.register_system_shared_memory("data", key_of(region), SIZE)
    client.unregister_system_shared_memory("data")
    with pytest.raises(InferenceServerException, match="no region of this name"):
        client.infer("echo", [given(client.library, 16, 0, "FP32", 4)])


@pytest.mark.parametrize(
    ("size", "offset", "said"),
    [
        (2 * SIZE + 4, 0, "are more than the"),
        (16, 2 * SIZE - 8, "are more than the"),
        (2**62, 2**62, "are more than the"),
        (8, 0, "needs 16 bytes of FP32, got 8"),
    ],
)
def test_out_of_bounds_region_is_refused(client: Any, region: Any, size: int, offset: int, said: str) -> None:
    client.register_system_shared_memory("data", key_of(region), 2 * SIZE)
    with pytest.raises(InferenceServerException) as refused:
        client.infer("echo", [given(client.library, size, offset, "FP32", 4)])
    assert said in refused.value.message()
    assert key_of(region) not in refused.value.message()


def test_truncated_region_is_an_error(client: Any, region: Any) -> None:
    client.register_system_shared_memory("data", key_of(region), 2 * SIZE)
    os.truncate(f"/dev/shm{key_of(region)}", 4096)
    with pytest.raises(InferenceServerException, match="shorter than it was"):
        client.infer("echo", [given(client.library)])
    assert client.is_server_live()


def test_stream_reads_and_writes_regions(server: Running, region: Any) -> None:
    client = triton_grpc.InferenceServerClient(server.grpc)
    client.register_system_shared_memory("data", key_of(region), 2 * SIZE)
    answers: Queue[tuple[Any, Any]] = Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer("echo", [given(triton_grpc)], outputs=[wanted(triton_grpc)])
    answer, error = answers.get(timeout=30)
    assert error is None
    assert "shared_memory_region" in answer.get_output("x").parameters
    assert memory.get_contents_as_numpy(region, np.float32, [SIZE // 4], SIZE)[-1] == VALUES[-1]
    client.stop_stream()
    client.unregister_system_shared_memory()
    client.close()


def test_event_stream_refuses_regions(server: Running) -> None:
    place = {"shared_memory_region": "data", "shared_memory_byte_size": 8}
    tensor = {"name": "x", "shape": [2], "datatype": "FP32", "parameters": place}
    url = f"{server.url}/v2/models/echo/infer_stream"
    refused = httpx.post(url, json={"inputs": [tensor]})
    assert refused.status_code == 400
    assert "single requests of V2 over REST" in refused.json()["error"]


def test_shared_memory_can_be_disabled(tmp_path: Path) -> None:
    server = started(tmp_path, shared_memory=False)
    client = triton_http.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    assert "system_shared_memory" not in client.get_server_metadata()["extensions"]
    with pytest.raises(InferenceServerException, match=r"\[501\].*\"system_shared_memory\": it is on where"):
        client.register_system_shared_memory("data", "/none", 8)
    with pytest.raises(InferenceServerException, match='"system_shared_memory"'):
        client.infer("echo", [given(triton_http)])
    client.close()
    assert server.stop() == 0
