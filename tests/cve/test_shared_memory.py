"""Shared memory that an error names, and that a client then registers as its own."""

import json
from pathlib import Path

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import SystemSharedMemoryRegisterRequest
from tests.cve.audited import Audited
from tests.cve.surfaces import bytes_tensor, everywhere
from tests.grpc_web import SERVICE, call

CVES = ("CVE-2025-23319", "CVE-2025-23320", "CVE-2025-23334")

KEYS = (
    "/memfd:inferstream",
    "memfd:inferstream (deleted)",
    "/proc/self/mem",
    "../../proc/self/fd/3",
    "/..",
    "",
)
"""What could name memory of the server, or another file."""

REGION = {"shared_memory_region": "inferstream", "shared_memory_byte_size": 64, "shared_memory_offset": 0}


def test_server_memory_has_no_name(audited: Audited) -> None:
    shared = set()
    for pid in audited.processes():
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            fields = line.split(maxsplit=5)
            if fields[1].startswith("rw-s") and len(fields) == 6:  # what others may write
                shared.add(fields[5])
    assert any(each.startswith("/memfd:inferstream") for each in shared), "workers share memory"
    assert {each for each in shared if not each.startswith(("/memfd:", "anon_inode:", "/dev/zero"))} == set()


@pytest.mark.parametrize("action", ["status", "register", "unregister"])
def test_client_cannot_register_device_memory(watched: Audited, action: str) -> None:
    path = f"{watched.url}/v2/cudasharedmemory"
    for where in (f"{path}/region/inferstream/{action}", f"{path}/{action}"):
        for found in (httpx.post(where, json={"key": "a", "byte_size": 64}), httpx.get(where)):
            assert found.status_code == 501, found.text


@pytest.mark.parametrize("key", KEYS)
def test_client_cannot_register_server_memory(watched: Audited, key: str) -> None:
    where = f"{watched.url}/v2/systemsharedmemory/region/inferstream/register"
    found = httpx.post(where, json={"key": key, "offset": 0, "byte_size": 64})
    assert found.status_code == 400, found.text
    assert not key or key not in found.text
    request = SystemSharedMemoryRegisterRequest(name="inferstream", key=key, byte_size=64).SerializeToString()
    with grpc.insecure_channel(watched.grpc) as channel, pytest.raises(grpc.RpcError) as failed:
        channel.unary_unary(f"/{SERVICE}/SystemSharedMemoryRegister")(request, timeout=20)
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert call(watched.url, "SystemSharedMemoryRegister", request).status == 3
    assert httpx.get(f"{watched.url}/v2/systemsharedmemory/status").json() == []


@pytest.mark.parametrize("verb", ["Register", "Status", "Unregister"])
def test_rpc_cannot_register_device_memory(watched: Audited, verb: str) -> None:
    method = f"CudaSharedMemory{verb}"
    with grpc.insecure_channel(watched.grpc) as channel, pytest.raises(grpc.RpcError) as failed:
        channel.unary_unary(f"/{SERVICE}/{method}")(b"", timeout=20)
    assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert call(watched.url, method, b"").status == 12


def test_tensors_do_not_access_foreign_regions(watched: Audited) -> None:
    tensor = {**bytes_tensor("a", **REGION)}
    bare = {name: value for name, value in tensor.items() if name != "data"}
    assert watched.infer("echo", {"inputs": [bare]}).status_code == 400
    outputs = [{"name": "text", "parameters": REGION}]
    answered = watched.infer("echo", {"inputs": [bytes_tensor("a")], "outputs": outputs})
    assert answered.status_code == 400 or answered.json()["outputs"][0]["data"] == ["a"]


def test_errors_name_no_memory_or_files_of_server(watched: Audited) -> None:
    for answer in everywhere(watched, json.dumps(REGION)):
        for secret in ("memfd", "/dev/shm", "/proc/", str(watched.folder.parent), "site-packages"):
            assert secret not in answer.body.decode(errors="replace"), answer
