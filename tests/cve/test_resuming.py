"""What one principal has begun, no other one resumes, reads, ends or gets: streams, conversations, results, regions.

Class of frontmcp GHSA-84j6-jc92-77jm (events that were replayed to another session) and of LiteLLM CVE-2026-35030
(identities that collide). The others here have names that many programs take for the same.
"""

import json
import os
import secrets
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import (
    ModelInferRequest,
    SystemSharedMemoryRegisterRequest,
    SystemSharedMemoryStatusRequest,
    SystemSharedMemoryUnregisterRequest,
)
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.protos.requests_pb2 import CancelRequest, CancelResponse
from tests.cve.principals import EVERY_SCOPE, Keys, serve_app, token
from tests.grpc_web import BINARY, framed, headers_of
from tests.serving import HERE, Running, eventually

CVES = ("GHSA-84j6-jc92-77jm",)

APP = (
    (HERE / "held_app.py").read_text()
    + '''

@app.model
async def words(prompt: str) -> AsyncIterator[str]:
    yield f"you said {prompt}"


@app.model(cache_enabled=True)
async def cached(key: str) -> str:
    """Says a number that it says once."""
    note(f"begun {key}")
    await asyncio.sleep(0.2)
    return os.urandom(8).hex()
'''
)

NAME = unicodedata.normalize("NFC", "alic\N{LATIN SMALL LETTER E WITH ACUTE}")
LONG = "a" * 256

KEYS = Keys()
for name in (
    NAME,
    unicodedata.normalize("NFD", NAME),
    NAME.upper(),
    NAME.title(),
    f"{NAME} ",
    f" {NAME}",
    f"{NAME}.",
    "alic%C3%A9",
    "\N{FULLWIDTH LATIN SMALL LETTER A}lic\N{LATIN SMALL LETTER E WITH ACUTE}",
    "alic\N{CYRILLIC SMALL LETTER IE}\N{COMBINING ACUTE ACCENT}",
    LONG,
    LONG[:-1],
    f"{LONG[:-1]}b",
    "bob",
):
    KEYS.add(name)

TOKENS = {f"token {sub}": token(sub) for sub in (NAME, f"jwt:{NAME}", f"{NAME} ", LONG, "bob", "k0")}

CALLERS = {name: KEYS.bearer(name) for name in KEYS.secrets}
CALLERS |= {name: {"authorization": f"Bearer {text}"} for name, text in TOKENS.items()}

OWNERS = [NAME, f"token {NAME}", LONG]

HOSTS: dict[str, dict[str, int]] = {
    "in-process": {},
    "workers": {"parallel_workers": 1},
    "front-ends": {"frontends": 2},
}

numbers = count(1)


@pytest.fixture(scope="module", params=HOSTS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("resuming")
    seal = root / "state.keys"
    seal.write_text(f"{secrets.token_urlsafe(32)}\n")
    seal.chmod(0o600)
    settings = {"state_key_file": str(seal), "cache_enabled": True, **HOSTS[request.param]}
    running = serve_app(root, KEYS, APP, **settings)
    yield running
    assert running.stop() == 0, running.text()
    assert "Traceback" not in running.text()


def others(owner: str) -> list[dict[str, str]]:
    return [headers for name, headers in CALLERS.items() if name != owner]


def cancel_by_rest(server: Running, session: str, headers: dict[str, str]) -> int:
    found = httpx.delete(f"{server.url}/v2/requests/{session}:1", headers=headers, timeout=20)
    return found.json()["cancelled"] if found.status_code == 200 else 0


def cancel_by_grpc(server: Running, session: str, headers: dict[str, str]) -> int:
    with grpc.insecure_channel(server.grpc) as channel:
        cancel = channel.unary_unary(
            "/inferstream.control.Requests/Cancel", CancelRequest.SerializeToString, CancelResponse.FromString
        )
        try:
            return cancel(
                CancelRequest(id=f"{session}:1"), metadata=tuple(headers.items()), timeout=20
            ).cancelled
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return 0


def cancel_by_grpc_web(server: Running, session: str, headers: dict[str, str]) -> int:
    answer = httpx.post(
        f"{server.url}/inferstream.control.Requests/Cancel",
        content=framed(CancelRequest(id=f"{session}:1").SerializeToString()),
        headers=headers_of(BINARY, **headers),
        timeout=20,
    )
    return int("grpc-status:0" in answer.text)


def cancel_by_mcp(server: Running, session: str, headers: dict[str, str]) -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    own = {"mcp-session-id": session, **headers}
    assert httpx.post(f"{server.url}/mcp", json=message, headers=own, timeout=20).status_code == 202


def cancel_by_websocket(server: Running, session: str, headers: dict[str, str]) -> int:
    """Another connection of whoever asks: a socket ends only what came over it."""
    url = f"{server.url.replace('http', 'ws', 1)}/v2/models/count/stream"
    with connect(url, additional_headers=headers) as socket:
        socket.send(json.dumps({"id": f"{session}:1", "cancel": True}))
        socket.send(json.dumps({"id": "x", **request("x", 1)}))
        assert json.loads(socket.recv())["id"] == "x"
    return 0


CANCELS: dict[str, Callable[[Running, str, dict[str, str]], int | None]] = {
    "rest": cancel_by_rest,
    "grpc": cancel_by_grpc,
    "grpc-web": cancel_by_grpc_web,
    "mcp": cancel_by_mcp,
    "websocket": cancel_by_websocket,
}


def request(key: str, until: int, pause: float = 0.0) -> dict[str, Any]:
    fields = (("key", "BYTES", key), ("until", "INT64", until), ("pause", "FP64", pause))
    return {"inputs": [{"name": n, "datatype": t, "shape": [1], "data": [v]} for n, t, v in fields]}


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("how", CANCELS)
def test_other_principals_cannot_cancel(server: Running, how: str, owner: str) -> None:
    session = f"s{next(numbers)}"
    body = {"id": f"{session}:1", **request(session, 10**6, 0.01)}
    url = f"{server.url}/v2/models/count/infer_stream"
    with httpx.stream("POST", url, json=body, headers=CALLERS[owner], timeout=60) as stream:
        events = stream.iter_lines()
        assert stream.status_code == 200
        next(events)
        for headers in others(owner):
            assert not CANCELS[how](server, session, headers)
        for _ in range(10):
            assert "cancelled" not in next(events), "it goes on"
        if how == "websocket":
            CANCELS[how](server, session, CALLERS[owner])
            return
        assert CANCELS[how](server, session, CALLERS[owner]) in (1, None)
        assert any("cancelled" in line for line in events)


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("model", ["count", "blocking"])
def test_other_principals_cannot_resume_read_or_release(server: Running, owner: str, model: str) -> None:
    key = f"r{next(numbers)}"
    body = request(key, 50, 0.01)
    if model == "blocking":
        body["inputs"].pop()
    url = f"{server.url}/v2/models/{model}/infer_stream"
    with httpx.stream(
        "POST", url, json=body, headers={"prefer": "resumable", **CALLERS[owner]}, timeout=60
    ) as stream:
        assert stream.headers["preference-applied"] == "resumable"
        ids = [line.partition(" ")[2] for line in stream.iter_lines() if line.startswith("id:")][:5]
    last = {"last-event-id": ids[-1]}
    for headers in others(owner):
        for method in ("POST", "DELETE"):
            answer = httpx.request(
                method, url, headers=last | headers, content=b"" if method == "POST" else None
            )
            assert answer.status_code == 410, answer.text
            assert key not in answer.text
    with httpx.stream("POST", url, headers=last | CALLERS[owner], timeout=60) as stream:
        assert stream.status_code == 200
        rest = [line.partition(" ")[2] for line in stream.iter_lines() if line.startswith("id:")]
    assert [int(each.rpartition(":")[2]) for each in rest][:2] == [
        int(ids[-1].rpartition(":")[2]) + n for n in (1, 2)
    ]


@pytest.mark.parametrize("owner", OWNERS)
def test_other_principals_cannot_continue_conversation(server: Running, owner: str) -> None:
    url = f"{server.url}/v1/responses"
    first = httpx.post(
        url, json={"model": "words", "input": "the canary"}, headers=CALLERS[owner], timeout=20
    ).json()
    more = {"model": "words", "input": "and then?", "previous_response_id": first["id"]}
    for headers in others(owner):
        answer = httpx.post(url, json=more, headers=headers, timeout=20)
        assert answer.status_code == 400, answer.text
        assert "canary" not in answer.text
        for method in ("GET", "DELETE"):
            answer = httpx.request(method, f"{url}/{first['id']}", headers=headers, timeout=20)
            assert answer.status_code >= 400
            assert "canary" not in answer.text
    assert "the canary" in httpx.post(url, json=more, headers=CALLERS[owner], timeout=20).text


def ask_cached(server: Running, key: str, headers: dict[str, str]) -> str:
    body = {"inputs": [{"name": "key", "datatype": "BYTES", "shape": [1], "data": [key]}]}
    answer = httpx.post(f"{server.url}/v2/models/cached/infer", json=body, headers=headers, timeout=20)
    return answer.json()["outputs"][0]["data"][0]


def test_other_principals_get_no_cached_results(server: Running) -> None:
    key = f"c{next(numbers)}"
    first = {name: ask_cached(server, key, headers) for name, headers in CALLERS.items()}
    assert len({*first.values()}) == len(CALLERS)
    if "frontends" not in json.loads((server.folder / "settings.json").read_text()):  # each has its own cache
        assert {name: ask_cached(server, key, headers) for name, headers in CALLERS.items()} == first


def test_other_principals_do_not_join_computation(server: Running) -> None:
    key = f"f{next(numbers)}"
    with ThreadPoolExecutor(len(CALLERS)) as pool:
        results = [*pool.map(lambda headers: ask_cached(server, key, headers), CALLERS.values())]
    assert len({*results}) == len(CALLERS)


def test_principals_share_cache_if_configured(tmp_path: Path) -> None:
    running = serve_app(tmp_path, KEYS, APP, cache_enabled=True, share_cache=True)
    try:
        assert len({ask_cached(running, "x", headers) for headers in CALLERS.values()}) == 1
    finally:
        assert running.stop() == 0


@pytest.fixture
def shared() -> Iterator[str]:
    key = f"/inferstream-{secrets.token_hex(6)}"
    path = Path(f"/dev/shm{key}")
    path.write_bytes(b"canary" + bytes(58))
    yield key
    path.unlink()


def regions_by_rest(server: Running, headers: dict[str, str], key: str) -> tuple[bool, int, bool]:
    """Whether a region of this name can be registered, how many there are, and whether it can be read."""
    base = f"{server.url}/v2/systemsharedmemory"
    place = {"key": key, "offset": 0, "byte_size": 64}
    with httpx.Client(headers=headers, timeout=20) as client:
        read = client.post(f"{server.url}/v2/models/words/infer", json=in_region())
        there = len(client.get(f"{base}/status").json())
        one = client.get(f"{base}/region/mine/status").status_code
        assert one == (200 if there else 400) or (not there and one == 404)
        registered = client.post(f"{base}/region/mine/register", json=place)
        client.post(f"{base}/region/mine/unregister")
        client.post(f"{base}/unregister")
    assert "canary" not in read.text or there
    return registered.status_code == 200, there, read.status_code == 200


def in_region() -> dict[str, Any]:
    place = {"shared_memory_region": "mine", "shared_memory_byte_size": 10, "shared_memory_offset": 0}
    return {"inputs": [{"name": "prompt", "datatype": "BYTES", "shape": [1], "parameters": place}]}


def regions_by_grpc(server: Running, headers: dict[str, str], key: str) -> tuple[bool, int, bool]:
    metadata = tuple(headers.items())

    def succeeds(call: Callable[..., Any], message: Any) -> bool:
        try:
            call(message, metadata=metadata, timeout=20)
        except grpc.RpcError:
            return False
        return True

    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        infer = ModelInferRequest(model_name="words")
        tensor = infer.inputs.add(name="prompt", datatype="BYTES", shape=[1])
        tensor.parameters["shared_memory_region"].string_param = "mine"
        tensor.parameters["shared_memory_byte_size"].int64_param = 10
        read = succeeds(stub.ModelInfer, infer)
        there = stub.SystemSharedMemoryStatus(
            SystemSharedMemoryStatusRequest(), metadata=metadata, timeout=20
        )
        place = SystemSharedMemoryRegisterRequest(name="mine", key=key, offset=0, byte_size=64)
        registered = succeeds(stub.SystemSharedMemoryRegister, place)
        for name in ("mine", ""):
            succeeds(stub.SystemSharedMemoryUnregister, SystemSharedMemoryUnregisterRequest(name=name))
    return registered, len(there.regions), read


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="this system has no /dev/shm")
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("how", [regions_by_rest, regions_by_grpc])
def test_other_principals_cannot_use_shared_memory(
    server: Running, shared: str, owner: str, how: Callable[..., tuple[bool, int, bool]]
) -> None:
    place = {"key": shared, "offset": 0, "byte_size": 64}
    url = f"{server.url}/v2/systemsharedmemory/region/mine/register"
    assert httpx.post(url, json=place, headers=CALLERS[owner], timeout=20).status_code == 200
    for headers in others(owner):
        for key in (shared, shared.removeprefix("/")):
            assert how(server, headers, key) == (False, 0, False)
    there = how(server, CALLERS[owner], shared)
    assert there[1] == 1, "those of others have left it"
    assert how(server, others(owner)[0], shared)[0], "it is nobody's now"


def test_cancel_without_other_scope_reaches_only_own_requests(tmp_path: Path) -> None:
    keys = Keys()
    keys.add("alice", ("infer", "stream"))
    keys.add("none", ())
    keys.add("other", EVERY_SCOPE, models=["words"])
    running = serve_app(tmp_path, keys, APP)
    try:
        body = {"id": "s:1", **request("k", 10**6, 0.01)}
        url = f"{running.url}/v2/models/count/infer_stream"
        with httpx.stream("POST", url, json=body, headers=keys.bearer("alice"), timeout=60) as stream:
            events = stream.iter_lines()
            next(events)
            for name in ("none", "other"):
                for cancel in (cancel_by_rest, cancel_by_grpc, cancel_by_grpc_web):
                    assert not cancel(running, "s", keys.bearer(name))
            assert cancel_by_grpc(running, "s", keys.bearer("alice")) == 1
            assert any("cancelled" in line for line in events)
        assert eventually(lambda: running.noted("finished k"))
    finally:
        assert running.stop() == 0
