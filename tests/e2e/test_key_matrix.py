"""Every route and RPC, by every kind of host, with every kind of key. What each needs is written here by hand."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from inferstream import Application
from tests.grpc_web import BINARY, framed, headers_of
from tests.mounted import Host
from tests.serving import Running
from tests.unit.server.test_actions import CALLERS, KEYS, app, entry, every_route

APP = """
from collections.abc import AsyncIterator
from inferstream import App, Application

app = App()

@app.model
def double(n: int) -> int:
    return 2 * n

@app.model
async def count(n: int) -> AsyncIterator[int]:
    for each in range(n):
        yield each
"""

HOST = """
from fastapi import FastAPI
from inferstream import Application
from served import app as served

application = Application(served, parallel_workers={workers})
app = FastAPI(lifespan=application.lifespan)
app.mount("/models", application.asgi)
"""

EVERYBODY, ANY_KEY = "everybody", "any valid key"

ROUTES = {
    EVERYBODY: """
        GET /  GET /docs  GET /v2/docs  GET /v2/models/double/docs  GET /page/*  GET /inferstream.js
        GET /health  GET /ping  GET /v2/health/live  GET /v2/health/ready  GET /v2/models/double/ready
    """,
    ANY_KEY: """
        GET /info  GET /v2  GET /v2/  GET /v2/runtimes  GET /v2/models  GET /v2/models/double  GET /v2/models/double/config
        GET /v1/models  GET /v1/models/double  GET /openai/v1/models  GET /openai/v1/models/double
        GET /v1/responses/double  POST /v1/responses/double  DELETE /v1/responses/double
        GET /openai/v1/responses/double  POST /openai/v1/responses/double  DELETE /openai/v1/responses/double
        POST /v1/conversations  POST /openai/v1/conversations
        DELETE /v2/requests/double  GET /v2/models/double/docs/dataplane.json
        GET /api/tags  GET /api/ps  GET /api/version  POST /api/show
        GET /models  POST /models  GET /models/double  GET /workflows  GET /workflows/double
        GET /wfpredict/double  GET /explanations/double  GET /page/limits
    """,
    "infer": """
        POST /  POST /generate  POST /rpc  POST /jsonrpc  POST /mcp  POST /v2/models/double/infer
        POST /v2/models/double/generate  POST /invocations  POST /v1/models/double:predict
        POST /v1/models/double:explain
        POST /v1/chat/completions  POST /v1/completions  POST /v1/embeddings  POST /v1/responses
        POST /openai/v1/chat/completions  POST /openai/v1/completions  POST /openai/v1/embeddings
        POST /openai/v1/responses
        POST /v1/messages  POST /v1/messages/count_tokens
        POST /rerank  POST /v1/rerank  POST /v2/rerank  POST /openai/v1/rerank  POST /score  POST /v1/score
        POST /v1/audio/transcriptions  POST /v1/audio/translations  POST /v1/audio/speech
        POST /openai/v1/audio/transcriptions  POST /openai/v1/audio/translations  POST /openai/v1/audio/speech
        POST /v1/images/generations  POST /openai/v1/images/generations
        POST /api/chat  POST /api/generate  POST /api/embed  POST /api/embeddings
        POST /predictions/double  PUT /predictions/double
        GET /v2/systemsharedmemory/status  GET /v2/systemsharedmemory/region/double/status
        POST /v2/systemsharedmemory/region/double/register  POST /v2/systemsharedmemory/unregister
        POST /v2/systemsharedmemory/region/double/unregister
    """,
    "stream": """
        POST /generate_stream  POST /v2/models/double/infer_stream  POST /v2/models/double/generate_stream
        POST /rpc/stream/double  POST /jsonrpc/stream/double  GET /v2/models/double/stream
    """,
    "repository": """
        POST /v2/repository/index  POST /v2/repository/models/double/load
        POST /v2/repository/models/double/unload
    """,
    "metrics": """
        GET /metrics  GET /metrics/load  GET /v2/load  GET /v2/models/stats  GET /v2/models/double/stats
        GET /page/live  GET /v2/keys
    """,
    "docs": """
        GET /openapi.json  GET /v2/docs/dataplane.json
        GET /proto  GET /proto/double
    """,
    "access": """
        GET /v2/access  GET /v2/logging  GET /v2/trace/setting  GET /v2/models/double/trace/setting
        POST /v2/logging  POST /v2/trace/setting  POST /v2/models/double/trace/setting
        GET /v2/cudasharedmemory/double
    """,
}
"""Methods and paths by the scope that they need."""

RPCS = {
    EVERYBODY: "ServerLive ServerReady ModelReady Check Watch List",
    ANY_KEY: "ServerMetadata ModelMetadata ModelConfig Cancel RuntimeSecurity",
    "metrics": "ModelStatistics",
    "access": "LogSettings TraceSetting",
    "infer": """
        ModelInfer PredictDouble SystemSharedMemoryStatus SystemSharedMemoryRegister SystemSharedMemoryUnregister
        CudaSharedMemoryStatus CudaSharedMemoryRegister CudaSharedMemoryUnregister
    """,
    "stream": "ModelStreamInfer PredictCount",
    "repository": "RepositoryIndex RepositoryModelLoad RepositoryModelUnload",
    "docs": "ServerReflectionInfo",
}
"""Methods of gRPC by the scope that they need."""


def needs(method: str, path: str) -> str:
    """What a route needs; HEAD needs what GET does. Raises LookupError for one without a rule."""
    method = "GET" if method == "HEAD" else method
    is_file = path.startswith("/page/") and "." in path
    name = f"{method} /page/*" if is_file else f"{method} {path}"
    found = [scope for scope, text in ROUTES.items() if name in [*_routes(text)]]
    assert len(found) == 1, f"{name} has {len(found)} rules"
    return found[0]


def _routes(text: str) -> Iterator[str]:
    words = text.split()
    return map(" ".join, zip(words[::2], words[1::2], strict=True))


def rpc_needs(path: str) -> str:
    found = [scope for scope, text in RPCS.items() if path.rpartition("/")[2] in text.split()]
    assert len(found) == 1, f"{path} has {len(found)} rules"
    return found[0]


def refusal(scope: str, who: str) -> int | None:
    """The status of the refusal; None where there is none."""
    status = CALLERS[who][1]
    return None if scope == EVERYBODY or (scope == ANY_KEY and status == 403) else status


async def rpcs() -> list[tuple[str, bool, bool]]:
    """Paths of all RPCs, and whether client and server stream."""
    async with Application(app) as application:
        application._backend.rpcs.find("/inferstream")  # takes over the typed ones
        known: Any = application._backend.rpcs
        found = [*known._rpcs.values(), *known.typed._rpcs.values()]
        return [(rpc.path, rpc.client_streams, rpc.server_streams) for rpc in found]


SETTINGS: dict[str, tuple[dict[str, int], tuple[str, ...]]] = {
    "plain": ({}, ()),
    "workers": ({"parallel_workers": 2}, ()),
    "front-ends": ({"frontends": 2}, ()),
    "workers-and-front-ends": ({"parallel_workers": 2, "frontends": 2}, ()),
    "one-port": ({}, ("--one-port",)),
}


MOUNTED = {"mounted": 0, "mounted-workers": 2}
"""Workers of an application in a program of somebody else's, which has no front ends."""


@pytest.fixture(scope="module", params=[*SETTINGS, *MOUNTED])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("matrix")
    every = [scope for scope in ROUTES if scope not in (EVERYBODY, ANY_KEY)]
    entries = [
        entry("right", every),
        entry("scopeless", []),
        entry("expired", every, expires="2020-01-01T00:00:00Z"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERSTREAM_KEYS", json.dumps({"version": 1, "keys": entries}))
        kind = request.param
        running = mounted(folder, MOUNTED[kind]) if kind in MOUNTED else direct(folder, kind)
    yield running
    assert running.stop() in (0, -15), running.text()
    assert "Traceback" not in running.text()
    assert not any(key in running.text() for key in KEYS.values())


def direct(folder: Path, kind: str) -> Running:
    settings, flags = SETTINGS[kind]
    (folder / "served").mkdir()
    (folder / "served" / "app.py").write_text(APP)
    (folder / "served" / "settings.json").write_text(json.dumps(settings))
    return Running(folder / "served", *flags, within=120)


def mounted(folder: Path, workers: int) -> Running:
    (folder / "served.py").write_text(APP)
    (folder / "host.py").write_text(HOST.format(workers=workers))
    return Host(folder / "models", 0, "-m", "uvicorn", "host:app", "--port", "0")


def test_every_route(host: Running) -> None:
    with httpx.Client(timeout=30) as client:
        for method, path in every_route():
            scope = needs(method, path)
            asked = path.replace("double", "nothing") if scope == "repository" else path
            for who, (headers, _) in CALLERS.items():
                accept = {"accept": "text/html", **headers}
                with client.stream(method, host.url + asked, headers=accept) as response:
                    expected = refusal(scope, who)
                    what = (method, path, who, response.status_code)
                    if expected is None:
                        assert response.status_code not in (401, 403), what
                        continue
                    assert response.status_code == expected, what
                    assert ("www-authenticate" in response.headers) is (expected == 401), what
                    text = response.read().decode()
                    assert not any(key in text for key in KEYS.values()), what


def test_every_rpc(host: Running) -> None:
    if isinstance(host, Host):
        pytest.skip("a mounted application serves gRPC-Web alone")
    codes = {401: grpc.StatusCode.UNAUTHENTICATED, 403: grpc.StatusCode.PERMISSION_DENIED}
    with grpc.insecure_channel(host.grpc) as channel:
        for path, client_streams, server_streams in asyncio.run(rpcs()):
            for who, (headers, _) in CALLERS.items():
                code = status_of(channel, path, client_streams, server_streams, headers)
                expected = refusal(rpc_needs(path), who)
                if expected is None:
                    assert code not in codes.values(), (path, who, code)
                else:
                    assert code is codes[expected], (path, who, code)


def status_of(
    channel: grpc.Channel, path: str, client_streams: bool, server_streams: bool, headers: dict[str, str]
) -> grpc.StatusCode:
    kinds = {
        (False, False): channel.unary_unary,
        (False, True): channel.unary_stream,
        (True, False): channel.stream_unary,
        (True, True): channel.stream_stream,
    }
    call: Any = kinds[client_streams, server_streams](path)
    try:
        answer = call(iter([b""]) if client_streams else b"", metadata=tuple(headers.items()), timeout=20)
        if server_streams:
            next(answer, None)  # `Watch` never ends
            answer.cancel()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("who", CALLERS)
def test_grpc_web(host: Running, who: str) -> None:
    headers, _ = CALLERS[who]
    for path, client_streams, server_streams in asyncio.run(rpcs()):
        if client_streams or server_streams:
            continue
        answer = httpx.post(
            host.url + path, content=framed(b""), headers=headers_of(BINARY, **headers), timeout=30
        )
        expected = {401: "16", 403: "7", None: None}[refusal(rpc_needs(path), who)]
        text = answer.text + str(answer.headers)
        status = answer.headers.get("grpc-status") or text.partition("grpc-status:")[2].split()[0].strip("'")
        assert (status in ("7", "16")) is (expected is not None), (path, status)
        assert expected in (None, status), path


@pytest.mark.parametrize("who", CALLERS)
@pytest.mark.parametrize("how", ["header", "subprotocol"])
def test_websocket(host: Running, who: str, how: str) -> None:
    headers, status = CALLERS[who]
    options: Any = {"additional_headers": headers}
    if how == "subprotocol":
        keys = [value.removeprefix("Bearer ") for value in headers.values()]
        options = {"subprotocols": ["inferstream", *(f"inferstream.key.{key}" for key in keys)]}
    url = f"{host.url.replace('http', 'ws', 1)}/v2/models/double/stream"
    if status is not None:
        with pytest.raises(InvalidStatus) as refused:
            connect(url, **options)
        assert refused.value.response.status_code == status
        return
    with connect(url, **options) as socket:
        socket.send(
            '{"id":"a","inputs":[{"name":"n","datatype":"INT64","shape":[1],"data":[4]}]}',
        )
        assert json.loads(socket.recv())["outputs"][0]["data"] == [8]


def test_route_without_rule_is_detected() -> None:
    with pytest.raises(AssertionError, match="has 0 rules"):
        needs("GET", "/v2/new")
    with pytest.raises(AssertionError, match="has 0 rules"):
        rpc_needs("/inference.GRPCInferenceService/New")
