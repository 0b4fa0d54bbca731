"""Keys at every door, with the clients that people have."""

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import grpc
import httpx
import httpx_sse
import jwt
import numpy as np
import openai
import pytest
import tritonclient.grpc
import tritonclient.http
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from inferstream import Client
from inferstream.plugins.blazerpc.jsonrpc import JsonRpcClient
from inferstream.protos.dataplane_pb2 import ModelInferRequest, RepositoryIndexRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.protos.requests_pb2 import CancelRequest, CancelResponse
from tests.serving import Running, eventually

APP = """
import asyncio
from collections.abc import AsyncIterator
from inferstream import App
from inferstream.types import Headers

app = App()

@app.model
def double(n: int) -> int:
    return 2 * n

@app.model
async def count(n: int) -> AsyncIterator[int]:
    for each in range(n):
        yield each

@app.model
async def say(prompt: str, max_tokens: int = 16) -> AsyncIterator[str]:
    for word in prompt.split():
        yield word

@app.model
def mirror(headers: Headers) -> str:
    return " ".join(headers)

@app.model
def large(n: int) -> str:
    return "x" * n

@app.model
async def larges(n: int) -> AsyncIterator[str]:
    yield "x" * n

@app.model
async def tale(prompt: str) -> AsyncIterator[str]:
    yield "x" * 1_000_000

@app.model
async def forever(n: int) -> AsyncIterator[int]:
    while True:
        yield n
        await asyncio.sleep(0.01)
"""

DOORS = (
    "whole",
    "gathered",
    "events",
    "resumable",
    "socket",
    "socket-stream",
    "grpc",
    "grpc-stream",
    "triton-stream",
    "typed",
    "typed-stream",
)
"""Ways in which a large answer leaves. Each has a key of its own."""

SECRETS = {
    id: f"ifs_{id}_{secrets.token_urlsafe(32)}"
    for id in (
        "all",
        "other",
        "expired",
        "infers",
        "doubles",
        "rated",
        "brief",
        "brief-socket",
        "brief-grpc",
        "brief-triton",
        "brief-openai",
        "five",
        "bytes",
        "routes",
        "revoked",
        *DOORS,
    )
}
EVERY = ["infer", "stream", "repository", "metrics", "docs", "access"]


def entry(id: str, scopes: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "principal": id,
        "sha256": hashlib.sha256(SECRETS[id].encode()).hexdigest(),
        "scopes": EVERY if scopes is None else scopes,
        "models": ["*"],
        "expires": None,
        "limits": {},
    } | more


KEYS = [
    entry("all"),
    entry("other"),
    entry("expired", expires="2020-01-01T00:00:00Z"),
    entry("infers", ["infer"]),
    entry("doubles", models=["double"]),
    entry("rated", limits={"requests_per_second": 1, "burst": 1}),
    *(
        entry(id, limits={"tokens_per_day": 3})
        for id in ("brief", "brief-socket", "brief-grpc", "brief-triton", "brief-openai")
    ),
    entry("five", limits={"requests_per_second": 0.001, "burst": 5}),
    entry("bytes", limits={"bytes_per_second": 400}),
    entry("routes", limits={"requests_per_second": 0.001, "burst": 2}),
    *(entry(door, limits={"bytes_per_second": 10_000}) for door in DOORS),
    entry("revoked"),
]


def write_keys(folder: Path, keys: list[dict[str, Any]], **more: Any) -> None:
    (folder / "keys.json").write_text(json.dumps({"version": 1, "keys": keys} | more))


def start(folder: Path, tokens: dict[str, Any] | None = None, **settings: Any) -> Running:
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    write_keys(folder, KEYS, **({} if tokens is None else {"jwt": tokens}))
    own = {"keys_file": str(folder / "keys.json"), "audit_log": str(folder / "audit.jsonl"), **settings}
    (folder / "settings.json").write_text(json.dumps(own))
    return Running(folder)


@pytest.fixture(scope="module", params=[1, 2], ids=["one-front-end", "two-front-ends"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = start(tmp_path_factory.mktemp("keys") / "app", frontends=request.param)
    yield running
    assert running.stop() == 0, running.text()


def bearer(id: str) -> dict[str, str]:
    return {"authorization": f"Bearer {SECRETS[id]}"}


def v2(n: int, id: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [n]}]}
    return body if id is None else body | {"id": id}


REFUSED = [({}, 401), ({"authorization": "Bearer wrong"}, 401), (bearer("expired"), 401)]


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/v2/models/double/infer", "infer"),
        ("POST", "/v2/models/count/infer_stream", "stream"),
        ("POST", "/v2/repository/index", "repository"),
        ("GET", "/metrics", "metrics"),
        ("GET", "/v2/models/stats", "metrics"),
        ("GET", "/openapi.json", "docs"),
        ("GET", "/v2/access", "access"),
        ("GET", "/v2/models/double", None),
        ("GET", "/v2", None),
        ("GET", "/v1/models", None),
    ],
)
def test_every_route_needs_key_with_scope(server: Running, method: str, path: str, scope: str | None) -> None:
    for headers, status in REFUSED:
        answer = httpx.request(method, server.url + path, headers=headers)
        assert answer.status_code == status, answer.text
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "ifs_" not in answer.text
    if scope not in (None, "infer"):
        assert httpx.request(method, server.url + path, headers=bearer("infers")).status_code == 403


def test_valid_key_grants_access_and_probes_are_open(server: Running) -> None:
    url = f"{server.url}/v2/models/double/infer"
    assert httpx.post(url, json=v2(2), headers=bearer("all")).json()["outputs"][0]["data"] == [4]
    assert httpx.post(url, json=v2(2), headers={"x-api-key": SECRETS["all"]}).status_code == 200
    assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200
    assert httpx.post(f"{server.url}/v2/repository/index", headers=bearer("all")).status_code == 200
    assert httpx.get(f"{server.url}/docs", headers=bearer("all")).status_code == 200


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_client_sends_key_with_every_request(server: Running, transport: str) -> None:
    url = server.url if transport == "http" else f"grpc://{server.grpc}"
    with Client(url, headers=bearer("all")) as client:
        assert "double" in client.models()
        assert client.metadata("double").name == "double"
        assert client.predict("double", n=2) == 4


def test_forbidden_model_looks_missing(server: Running) -> None:
    answers = [
        httpx.post(f"{server.url}/v2/models/{model}/infer", json=v2(1), headers=bearer("doubles"))
        for model in ("count", "nothing")
    ]
    assert [each.status_code for each in answers] == [403, 403]
    assert answers[0].text.replace("count", "nothing") == answers[1].text
    missing = httpx.post(f"{server.url}/v2/models/nothing/infer", json=v2(1), headers=bearer("all"))
    assert (missing.status_code, "double" in missing.text) == (404, False)


def test_lists_contain_only_allowed_models(server: Running) -> None:
    for id, every in (("all", True), ("doubles", False)):
        options: dict[str, Any] = {"headers": bearer(id)}
        lists = [
            {each["id"] for each in httpx.get(f"{server.url}/v1/models", **options).json()["data"]},
            {*httpx.get(f"{server.url}/v1/models", **options).json()["models"]},
            {*httpx.get(f"{server.url}/v2/models", **options).json()["models"]},
            {each["name"] for each in httpx.post(f"{server.url}/v2/repository/index", **options).json()},
            {
                each["name"]
                for each in httpx.get(f"{server.url}/v2/models/stats", **options).json()["model_stats"]
            },
        ]
        assert [("say" in names) for names in lists] == [every] * 5
        assert [("double" in names) for names in lists[1:]] == [True] * 4
    unnamed = httpx.post(f"{server.url}/generate", json={"inputs": "a"}, headers=bearer("doubles"))
    assert "say" not in unnamed.text
    with grpc.insecure_channel(server.grpc) as channel:
        index = GRPCInferenceServiceStub(channel).RepositoryIndex(
            RepositoryIndexRequest(), metadata=tuple(bearer("doubles").items())
        )
    assert [model.name for model in index.models] == ["double"]


def test_json_rpc_refusals_have_status(server: Running) -> None:
    call = {"jsonrpc": "2.0", "method": "double", "params": {"n": 1}, "id": 7}
    other = call | {"method": "count", "id": 8}
    cases: list[tuple[Any, dict[str, str], int]] = [
        (call, {}, 401),
        (call, bearer("all"), 200),
        (other, bearer("doubles"), 403),
        ([other, other], bearer("doubles"), 403),
        ([call, other], bearer("doubles"), 200),
    ]
    for body, headers, status in cases:
        answer = httpx.post(f"{server.url}/rpc", json=body, headers=headers)
        assert answer.status_code == status, answer.text
    assert answer.json()[1]["error"]["data"] == {"code": "permission_denied", "status": 403}
    refused = httpx.post(f"{server.url}/rpc", json=other, headers=bearer("doubles")).json()
    assert (refused["id"], refused["error"]["code"]) == (8, -32000)

    async def client_of_blazerpc() -> None:
        async with JsonRpcClient(f"{server.url}/jsonrpc") as client:
            with pytest.raises(Exception, match="needs a valid key"):
                await client.predict("double", n=1)

    asyncio.run(client_of_blazerpc())
    for _ in range(3):
        limited = httpx.post(f"{server.url}/rpc", json=call, headers=bearer("routes"))
    assert (limited.status_code, limited.json()["id"]) == (429, 7)
    assert limited.headers["retry-after"]


def test_repository_calls_are_rate_limited(server: Running) -> None:
    url = f"{server.url}/v2/repository/index"
    statuses = [httpx.post(url, headers=bearer("routes")).status_code for _ in range(4)]
    assert statuses[-1] == 429


def test_request_bytes_count_on_every_transport(server: Running) -> None:
    text = json.dumps(v2(1)).ljust(500).encode()
    url = f"{server.url}/v2/models/double/infer"
    message = ModelInferRequest(model_name="double", id="i" * 500)
    message.inputs.add(name="n", datatype="INT64", shape=[1]).contents.int64_contents.append(3)

    def chunked() -> bool:
        return httpx.post(url, content=iter([text]), headers=bearer("bytes")).status_code == 429

    def over_grpc() -> bool:
        with grpc.insecure_channel(server.grpc) as channel:
            try:
                GRPCInferenceServiceStub(channel).ModelInfer(message, metadata=tuple(bearer("bytes").items()))
            except grpc.RpcError as error:
                return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        return False

    def over_a_socket() -> bool:
        with connect(
            f"{server.url.replace('http', 'ws')}/v2/models/double/stream", additional_headers=bearer("bytes")
        ) as socket:
            socket.send(text.decode())
            return json.loads(socket.recv()).get("code") == "limit_exceeded"

    for call in (chunked, over_grpc, over_a_socket):
        eventually(
            call
        )  # the bucket has a second's bytes at most, so that the second of two large ones waits


def answer_of(server: Running, door: str) -> str:
    """What the key of a door gets over it: a large answer, or a refusal."""
    headers, pairs = bearer(door), tuple(bearer(door).items())
    model = "larges" if door in ("events", "resumable") or door.endswith("stream") else "large"
    if door.startswith("socket"):
        url = f"{server.url.replace('http', 'ws')}/v2/models/{model}/stream"
        with connect(url, additional_headers=headers, max_size=None) as socket:
            socket.send(json.dumps(v2(LARGE, "a")))
            return str(socket.recv())
    if door == "gathered":
        url = f"{server.url}/v1/completions"
        return httpx.post(url, json={"model": "tale", "prompt": "go"}, headers=headers, timeout=30).text
    if door in ("whole", "events", "resumable"):
        action = "infer" if door == "whole" else "infer_stream"
        body = v2(LARGE)
        prefer = {"prefer": "resumable"} if door == "resumable" else {}
        url = f"{server.url}/v2/models/{model}/{action}"
        return httpx.post(url, json=body, headers=headers | prefer, timeout=30).text
    message = ModelInferRequest(model_name=model)
    message.inputs.add(name="n", datatype="INT64", shape=[1]).contents.int64_contents.append(LARGE)
    dialect = ("x-stream-dialect", "triton" if door == "triton-stream" else "mlserver")
    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.grpc, options=options) as channel:
        stub = GRPCInferenceServiceStub(channel)
        typed: Any = channel.unary_stream if door == "typed-stream" else channel.unary_unary
        try:
            if door.startswith("typed"):
                answer = typed(f"/inferstream.App/Predict{model.title()}")(TYPED, metadata=pairs)
            elif door == "grpc":
                answer = stub.ModelInfer(message, metadata=pairs)
            else:
                answer = stub.ModelStreamInfer(iter([message]), metadata=(*pairs, dialect))
            return str(next(answer) if door.endswith("stream") else answer)
        except grpc.RpcError as error:
            return str(error)


LARGE = 1_000_000

TYPED = b"\x08\xc0\x84\x3d"
"""A message whose first field is `LARGE`."""


@pytest.mark.parametrize("door", DOORS)
def test_response_bytes_count_on_every_transport(server: Running, door: str) -> None:
    assert "x" * LARGE in answer_of(server, door)
    # Another front end knows of them after half a second.
    eventually(lambda: "bytes_per_second" in answer_of(server, door))


def test_key_is_hidden_from_model_code(server: Running) -> None:
    body = {"inputs": []}
    for headers in (bearer("all"), {"x-api-key": SECRETS["all"]}):
        answer = httpx.post(
            f"{server.url}/v2/models/mirror/infer", json=body, headers={**headers, "x-mark": "here"}
        )
        seen = answer.json()["outputs"][0]["data"][0]
        assert ("x-mark" in seen, "authorization" in seen, "x-api-key" in seen) == (True, False, False)
        assert SECRETS["all"] not in answer.text


def test_resumable_stream_has_limit_headers(server: Running) -> None:
    url = f"{server.url}/v2/models/count/infer_stream"
    answer = httpx.post(url, json=v2(2), headers={**bearer("rated"), "prefer": "resumable"})
    while answer.status_code == 429:
        answer = httpx.post(url, json=v2(2), headers={**bearer("rated"), "prefer": "resumable"})
    assert answer.headers["preference-applied"] == "resumable"
    assert answer.headers["x-ratelimit-limit-requests"] == "1"


def test_gathered_response_has_limit_headers(server: Running) -> None:
    def asked() -> httpx.Response:
        body = {"model": "say", "prompt": "hello"}
        return httpx.post(f"{server.url}/v1/completions", json=body, headers=bearer("rated"))

    answer = asked()
    while answer.status_code == 429:
        answer = asked()
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-ratelimit-limit-requests"] == "1"


def test_audit_log_works_without_keys_and_resolves_proxies(tmp_path: Path) -> None:
    server = start(tmp_path / "app", keys_file=None, trusted_proxies=["127.0.0.1"])
    try:
        url = f"{server.url}/v2/models/double/infer"
        assert httpx.post(url, json=v2(1), headers={"x-forwarded-for": "203.0.113.7"}).status_code == 200
        assert httpx.post(url, content=b"{").status_code == 400
        assert httpx.post(f"{server.url}/v2/models/none/infer", json=v2(1)).status_code == 404
        assert httpx.get(f"{server.url}/v2", headers={"host": "evil.example"}).status_code == 403
        assert httpx.post(f"{server.url}/v2/repository/index").status_code == 200
    finally:
        assert server.stop() == 0, server.text()
    lines = [json.loads(line) for line in (tmp_path / "app" / "audit.jsonl").read_text().splitlines()]
    assert [(line["operation"], line["status"], line["model"]) for line in lines] == [
        ("infer", 200, "double"),
        ("infer", 400, "double"),
        ("infer", 404, "none"),
        ("repository_read", 200, ""),
    ]
    assert lines[0]["peer"] == "203.0.113.7"
    assert lines[1]["peer"].startswith("ipv4:127.0.0.1:")
    assert {line["principal"] for line in lines} == {None}


def test_each_failed_websocket_message_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    server = start(folder)
    try:
        url = f"{server.url.replace('http', 'ws')}/v2/models/forever/stream"
        headers = bearer("revoked") | {"x-request-timeout": "30"}
        with connect(url, additional_headers=headers) as socket:
            for _ in range(2):
                socket.send(json.dumps(v2(1, "open") | {"part": "first"}))
            socket.send(json.dumps({"id": "wrong", "part": "first", "inputs": 7}))
            codes: list[str] = []
            while len(codes) < 2:
                codes += filter(None, [json.loads(socket.recv()).get("code")])
            assert codes == ["already_exists", "invalid"]
            write_keys(folder, [entry for entry in KEYS if entry["id"] != "revoked"])

            infer = f"{server.url}/v2/models/double/infer"
            eventually(lambda: httpx.post(infer, json=v2(1), headers=headers).status_code == 401)
            socket.send(json.dumps(v2(1)))
            while json.loads(socket.recv()).get("code") != "unauthenticated":
                pass
    finally:
        assert server.stop() == 0, server.text()
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    told = [line["status"] for line in lines if line["door"] == "websocket"]
    assert [status for status in told if status in (400, 401, 409)] == [409, 400, 401]


def test_management_and_docs_are_closed_beyond_loopback_without_keys(tmp_path: Path) -> None:
    server = start(tmp_path / "app", keys_file=None, host="0.0.0.0")
    try:
        closed = ["/openapi.json", "/v2/docs/dataplane.json", "/proto", "/v2/access"]
        assert [httpx.get(server.url + path).status_code for path in closed] == [403] * 4
        assert httpx.post(f"{server.url}/v2/repository/index").status_code == 403
        opened = ["/", "/docs", "/metrics", "/v2/models", "/v2/models/double"]
        assert [httpx.get(server.url + path).status_code for path in opened] == [200] * 5
        assert "no keys: inference, metadata and metrics are open" in server.text()
        assert "are closed because the server listens beyond loopback" in server.text()
        with grpc.insecure_channel(server.grpc) as channel:
            reflect = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
            with pytest.raises(grpc.RpcError) as refused:
                list(reflect(iter([b""])))
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    finally:
        assert server.stop() == 0, server.text()


def test_the_metrics_port(server: Running) -> None:
    url = f"http://127.0.0.1:{server.metrics_port}/metrics"
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers=bearer("infers")).status_code == 403
    assert httpx.get(url, headers=bearer("all")).status_code == 200


def test_openai_client_raises_own_errors(server: Running) -> None:
    def ask(key: str, model: str = "say", **options: Any) -> Any:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
            return client.completions.create(model=model, prompt="a b", **options)

    assert ask(SECRETS["all"]).choices[0].text
    with pytest.raises(openai.AuthenticationError):
        ask("wrong")
    with pytest.raises(openai.PermissionDeniedError):
        ask(SECRETS["doubles"])
    with pytest.raises(openai.PermissionDeniedError):
        ask(SECRETS["infers"], stream=True)
    assert ask(SECRETS["infers"]).choices[0].text


def test_openai_backs_off_and_succeeds(server: Running) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=SECRETS["rated"], max_retries=0) as client:
        with pytest.raises(openai.RateLimitError) as refused:
            for _ in range(20):
                client.completions.create(model="say", prompt="a")
        assert refused.value.response.headers["retry-after"] == "1"
        assert refused.value.response.headers["x-ratelimit-limit-requests"] == "1"
        patient = client.with_options(max_retries=5)
        assert patient.completions.create(model="say", prompt="a").choices[0].text


def test_grpc_has_statuses(server: Running) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        message = ModelInferRequest(model_name="double")
        inputs = message.inputs.add(name="n", datatype="INT64", shape=[1])
        inputs.contents.int64_contents.append(3)

        def ended(headers: dict[str, str], stream: bool = False) -> grpc.StatusCode:
            call: Callable[..., Any] = stub.ModelStreamInfer if stream else stub.ModelInfer
            try:
                answer = call(iter([message]) if stream else message, metadata=tuple(headers.items()))
                if stream:
                    list(answer)
            except grpc.RpcError as error:
                return error.code()
            return grpc.StatusCode.OK

        for stream in (False, True):
            for headers, _ in REFUSED:
                assert ended(headers, stream) is grpc.StatusCode.UNAUTHENTICATED
            assert ended(bearer("all"), stream) is grpc.StatusCode.OK
        assert ended(bearer("infers"), stream=True) is grpc.StatusCode.PERMISSION_DENIED
        message.model_name = "nothing"
        assert ended(bearer("doubles")) is grpc.StatusCode.PERMISSION_DENIED


def test_triton_clients(server: Running) -> None:
    for kind, url in (
        (tritonclient.http, server.url.removeprefix("http://")),
        (tritonclient.grpc, server.grpc),
    ):
        with kind.InferenceServerClient(url) as client:
            tensor = kind.InferInput("n", [1], "INT64")
            tensor.set_data_from_numpy(np.array([5]))
            answer = client.infer("double", [tensor], headers=bearer("all"))
            assert answer.as_numpy("output") == [10]
            with pytest.raises(Exception, match="key"):
                client.infer("double", [tensor])


def test_websocket_accepts_key_in_header_or_subprotocol(server: Running) -> None:
    url = f"{server.url.replace('http', 'ws')}/v2/models/double/stream"
    message = json.dumps(v2(4, "a"))
    offered: Any = ["inferstream", f"inferstream.key.{SECRETS['all']}"]
    for options in ({"additional_headers": bearer("all")}, {"subprotocols": offered}):
        with connect(url, **options) as socket:
            socket.send(message)
            assert json.loads(socket.recv())["outputs"][0]["data"] == [8]
            assert socket.subprotocol == ("inferstream" if "subprotocols" in options else None)
            assert SECRETS["all"] not in str(socket.response.headers)
    for headers, status in [*REFUSED, (bearer("infers"), 403)]:
        with pytest.raises(InvalidStatus) as refused:
            connect(url, additional_headers=headers)
        assert refused.value.response.status_code == status


def test_exhausted_stream_ends_with_event(server: Running) -> None:
    with (
        httpx.Client() as client,
        httpx_sse.connect_sse(
            client,
            "POST",
            f"{server.url}/v2/models/count/infer_stream",
            json=v2(100),
            headers=bearer("brief"),
        ) as source,
    ):
        events = [*source.iter_sse()]
    assert len(events) == 4
    assert events[-1].event == "error"
    assert json.loads(events[-1].data)["code"] == "limit_exceeded"
    answer = httpx.post(f"{server.url}/v2/models/double/infer", json=v2(1), headers=bearer("brief"))
    assert answer.status_code == 429
    assert answer.json()["limit"] == "tokens_per_day"


def test_exhausted_websocket_stream_ends_with_event(server: Running) -> None:
    url = f"{server.url.replace('http', 'ws')}/v2/models/count/stream"
    with connect(url, additional_headers=bearer("brief-socket")) as socket:
        socket.send(json.dumps(v2(100, "a")))
        messages = [json.loads(socket.recv()) for _ in range(4)]
        assert [message.get("code") for message in messages] == [None, None, None, "limit_exceeded"]
        assert messages[-1]["id"] == "a"


def test_exhausted_stream_ends_in_both_grpc_protocols(server: Running) -> None:
    message = ModelInferRequest(model_name="count", id="a")
    message.inputs.add(name="n", datatype="INT64", shape=[1]).contents.int64_contents.append(100)
    answers = []
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        metadata = (*bearer("brief-grpc").items(), ("x-stream-dialect", "mlserver"))
        with pytest.raises(grpc.RpcError) as ended:
            answers.extend(stub.ModelStreamInfer(iter([message]), metadata=metadata, timeout=30))
    assert len(answers) == 3
    assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "tokens_per_day" in ended.value.details()
    replies: Queue[tuple[Any, Any]] = Queue()
    with tritonclient.grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(
            lambda result, error: replies.put((result, error)), headers=bearer("brief-triton")
        )
        tensor = tritonclient.grpc.InferInput("n", [1], "INT64")
        tensor.set_data_from_numpy(np.array([100]))
        client.async_stream_infer("count", [tensor])
        errors = [replies.get(timeout=30)[1] for _ in range(4)]
    assert errors[:3] == [None] * 3
    assert "tokens_per_day" in str(errors[3])


def test_openai_client_raises_mid_stream_error(server: Running) -> None:
    pieces = []
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key=SECRETS["brief-openai"], max_retries=0) as client:
        with pytest.raises(openai.APIError, match="tokens_per_day"):
            for piece in client.completions.create(model="say", prompt="a b c d e f", stream=True):
                pieces.append(piece.choices[0].text)
    assert "".join(pieces).split() == ["a", "b", "c"] or "".join(pieces) == "abc"


def test_limit_is_exact_across_front_ends(server: Running) -> None:
    def ask(_: int) -> int:
        return httpx.post(
            f"{server.url}/v2/models/double/infer", json=v2(1), headers=bearer("five")
        ).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = [*pool.map(ask, range(40))]
    assert (statuses.count(200), statuses.count(429)) == (5, 35)


def test_only_same_principal_cancels_call(server: Running) -> None:
    async def run() -> None:
        async with httpx.AsyncClient() as client:
            url = f"{server.url}/v2/models/forever/infer_stream"
            async with client.stream("POST", url, json=v2(1, "mine"), headers=bearer("all")) as stream:
                lines = stream.aiter_lines()
                await anext(lines)
                target = f"{server.url}/v2/requests/mine"
                assert (await client.delete(target)).status_code == 401
                assert (await client.delete(target, headers=bearer("other"))).status_code == 404
                # The same key, shown in another way.
                own = {"x-api-key": SECRETS["all"]}
                assert (await client.delete(target, headers=own)).status_code == 200

    asyncio.run(run())
    with grpc.insecure_channel(server.grpc) as channel:
        cancel = channel.unary_unary(
            "/inferstream.control.Requests/Cancel", CancelRequest.SerializeToString, CancelResponse.FromString
        )
        with pytest.raises(grpc.RpcError) as refused:
            cancel(CancelRequest(id="mine"))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_only_same_principal_resumes_stream(server: Running) -> None:
    url = f"{server.url}/v2/models/count/infer_stream"
    first = httpx.post(url, json=v2(3), headers={**bearer("all"), "prefer": "resumable"})
    assert first.headers["preference-applied"] == "resumable"
    last = next(line for line in first.text.splitlines() if line.startswith("id:"))[3:].strip()

    def resume(**headers: str) -> httpx.Response:
        return httpx.get(url, headers={"last-event-id": last, "accept": "text/event-stream", **headers})

    assert resume().status_code == 401
    assert resume(**bearer("other")).status_code in (404, 410)
    assert resume(**{"x-api-key": SECRETS["all"]}).status_code == 200


def test_revoked_key_ends_access_and_broken_file_changes_nothing(tmp_path: Path) -> None:
    server = start(tmp_path / "app", frontends=2)
    try:
        folder = tmp_path / "app"

        def statuses() -> set[int]:
            url = f"{server.url}/v2/models/double/infer"
            return {httpx.post(url, json=v2(1), headers=bearer("revoked")).status_code for _ in range(12)}

        assert statuses() == {200}
        (folder / "keys.json").write_text("{")
        eventually(lambda: "keys.json" in server.text())
        assert statuses() == {200}
        write_keys(folder, KEYS[:-1])
        eventually(lambda: statuses() == {401})
        url = f"{server.url}/v2/models/double/infer"
        assert httpx.post(url, json=v2(1), headers=bearer("all")).status_code == 200
    finally:
        assert server.stop() == 0, server.text()
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    called = next(line for line in lines if line["end"] == "success")
    assert (called["principal"], called["key"], called["model"]) == ("revoked", "revoked", "double")
    assert (called["operation"], called["status"], called["door"]) == ("infer", 200, "http")
    refused = next(line for line in lines if line["status"] == 401)
    assert (refused["principal"], refused["end"]) == (None, "unauthenticated")
    assert not any(secret in (folder / "audit.jsonl").read_text() for secret in SECRETS.values())
    assert "Traceback" not in server.text()


@pytest.mark.parametrize("frontends", [1, 2])
def test_daily_token_usage_survives_restart(tmp_path: Path, frontends: int) -> None:
    issuer = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    folder = tmp_path / "app"
    (tmp_path / "jwks.json").write_text(
        json.dumps({"keys": [{**json.loads(RSAAlgorithm.to_jwk(issuer.public_key())), "kid": "one"}]})
    )
    rules = {
        "issuer": "https://issuer.example",
        "audience": "models",
        "jwks_file": str(tmp_path / "jwks.json"),
        "limits": {"tokens_per_day": 10},
    }
    claims = {"iss": rules["issuer"], "aud": "models", "sub": "alice", "exp": time.time() + 600}
    shown = jwt.encode(claims | {"scope": "infer", "models": ["*"]}, issuer, "RS256", {"kid": "one"})

    def statuses(server: Running) -> list[int]:
        url = f"{server.url}/v2/models/double/infer"
        headers = {"authorization": f"Bearer {shown}"}
        return [httpx.post(url, json=v2(1), headers=headers).status_code for _ in range(12)]

    usage = tmp_path / "usage.json"
    server = start(folder, frontends=frontends, usage_file=str(usage), tokens=rules)
    assert sorted(statuses(server)) == [200] * 10 + [429] * 2
    assert server.stop() == 0, server.text()
    [day] = json.loads(usage.read_text())["days"].values()
    assert (day["jwt:alice"]["principal"], day["jwt:alice"]["tokens"]) == ("jwt:alice", 10)
    server = Running(folder)
    assert set(statuses(server)) == {429}
    assert server.stop() == 0, server.text()
