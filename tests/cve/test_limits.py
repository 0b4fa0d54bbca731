"""Limits hold for every principal and lock nobody out, however many principals there are and whatever they ask for.

Class of attacks on the state that a server keeps for each identity: tables that fill, rows that are forgotten early,
errors in the code of errors, and costs before a signature is checked.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.cve.apis import FACES, TEXT, URGENT
from tests.cve.principals import OTHER, Keys, audited, serve_app, token
from tests.grpc_web import BINARY, framed, headers_of
from tests.serving import Running, eventually, metric, write_model

CVES = ()
"""No advisory of another server is of this class."""

APP = """
from collections.abc import AsyncIterator
from inferstream import App

app = App()

@app.model
def double(n: int) -> int:
    return 2 * n

@app.model
async def words(prompt: str) -> AsyncIterator[str]:
    yield prompt
"""

TABLE = 8
ROWS = f"inferstream.plugins.keys.counters.ROWS={TABLE}"

HOSTS: dict[str, dict[str, int]] = {
    "in-process": {},
    "workers": {"parallel_workers": 1},
    "front-ends": {"frontends": 2},
}

HELD = {"requests_per_second": 0.0001, "burst": 1000}
"""Limits whose use is not over for hours, so that a row cannot be another's."""


def bearer(sub: str, **claims: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {token(sub, **claims)}"}


def request(n: int = 4) -> dict[str, Any]:
    return {"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [n]}]}


def infer(server: Running, headers: dict[str, str], client: Any = httpx) -> httpx.Response:
    return client.post(f"{server.url}/v2/models/double/infer", json=request(), headers=headers, timeout=20)


@pytest.fixture(params=HOSTS)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts a server with a small table of counters."""
    started: list[Running] = []

    def start(keys: Keys | None = None, patched: str = ROWS, **limits: Any) -> Running:
        rules = {"limits": limits}
        started.append(serve_app(tmp_path, keys or Keys(), APP, rules, patched, **HOSTS[request.param]))
        return started[-1]

    yield start
    for running in started:
        assert running.stop() == 0, running.text()
        assert "Traceback" not in running.text()


def test_more_subjects_than_rows_are_served(start: Callable[..., Running]) -> None:
    server = start(requests_per_second=100_000, in_flight=5)
    with httpx.Client() as client:
        answers = [infer(server, bearer(f"user-{number}"), client) for number in range(10 * TABLE)]
    assert {answer.status_code for answer in answers} == {200}
    assert all("x-ratelimit-remaining-requests" in answer.headers for answer in answers)


def over_rest(server: Running, headers: dict[str, str]) -> str:
    answer = infer(server, headers)
    assert answer.json()["limit"] == "of principals at once" if answer.status_code == 429 else True
    return f"{answer.status_code} {answer.headers.get('retry-after')}"


def over(path: str, body: dict[str, Any]) -> Callable[[Running, dict[str, str]], str]:
    def ask(server: Running, headers: dict[str, str]) -> str:
        answer = httpx.post(server.url + path, json=body, headers=headers, timeout=20)
        return f"{answer.status_code} {answer.headers.get('retry-after')}"

    return ask


def over_grpc(server: Running, headers: dict[str, str]) -> str:
    message = ModelInferRequest(model_name="double")
    message.inputs.add(name="n", datatype="INT64", shape=[1]).contents.int64_contents.append(4)
    with grpc.insecure_channel(server.grpc) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            GRPCInferenceServiceStub(channel).ModelInfer(message, metadata=tuple(headers.items()), timeout=20)
    error: Any = refused.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    return f"429 {dict(error.trailing_metadata()).get('retry-after')}"


def over_grpc_web(server: Running, headers: dict[str, str]) -> str:
    message = ModelInferRequest(model_name="double")
    message.inputs.add(name="n", datatype="INT64", shape=[1]).contents.int64_contents.append(4)
    answer = httpx.post(
        f"{server.url}/inference.GRPCInferenceService/ModelInfer",
        content=framed(message.SerializeToString()),
        headers=headers_of(BINARY, **headers),
        timeout=20,
    )
    text = answer.text + str(answer.headers)
    assert "grpc-status:8" in text or answer.headers.get("grpc-status") == "8", text
    return "429 1"


def over_websocket(server: Running, headers: dict[str, str]) -> str:
    url = f"{server.url.replace('http', 'ws', 1)}/v2/models/double/stream"
    with connect(url, additional_headers=headers) as socket:
        socket.send(json.dumps({"id": "a", **request()}))
        answer = json.loads(socket.recv())
        assert answer["code"] == "limit_exceeded", answer
        socket.send(json.dumps({"id": "b", **request()}))
        assert json.loads(socket.recv())["code"] == "limit_exceeded", "the connection goes on"
    return "429 1"


CHAT = {"model": "words", "messages": [{"role": "user", "content": "x"}]}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "double", "params": {"n": 1}}
TOOL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "double", "arguments": {"n": 1}},
}

TRANSPORTS = {
    "rest": over_rest,
    "sse": over("/v2/models/words/generate_stream", {"prompt": "x"}),
    "openai": over("/v1/chat/completions", CHAT),
    "openai stream": over("/v1/chat/completions", {**CHAT, "stream": True}),
    "anthropic": over("/v1/messages", {**CHAT, "max_tokens": 5}),
    "ollama": over("/api/generate", {"model": "words", "prompt": "x"}),
    "ollama load": over("/api/generate", {"model": "words", "keep_alive": "1h"}),
    "tgi": over("/generate", {"model": "words", "inputs": "x"}),
    "json-rpc": over("/rpc", CALL),
    "mcp": over("/mcp", TOOL),
    "grpc": over_grpc,
    "grpc-web": over_grpc_web,
    "websocket": over_websocket,
}


def test_full_table_returns_429_over_every_transport(
    start: Callable[..., Running],
) -> None:
    server = start(**HELD)
    served = [f"user-{number}" for number in range(TABLE)]
    assert {infer(server, bearer(sub)).status_code for sub in served} == {200}
    for number in range(3):
        refused = {name: ask(server, bearer(f"late-{number}")) for name, ask in TRANSPORTS.items()}
        assert refused == dict.fromkeys(TRANSPORTS, "429 1")
    with httpx.Client() as client:  # one connection, which stays
        for number in range(20):
            assert infer(server, bearer(f"later-{number}"), client).status_code == 429
            assert infer(server, bearer(served[number % TABLE]), client).status_code == 200
            assert client.get(f"{server.url}/v2/health/ready").status_code == 200

    def refused_lines() -> list[dict[str, object]]:
        return [
            each for each in audited(server.folder.parent) if str(each["principal"]).startswith("jwt:late")
        ]

    lines: Any = eventually(lambda: len(refused_lines()) >= 20 and refused_lines())
    assert {line["end"] for line in lines} == {"limit_exceeded"}


def test_evicted_principal_gets_no_fresh_limit(start: Callable[..., Running]) -> None:
    patched = (
        f"inferstream.plugins.keys.words.SLOTS=1 {ROWS}"  # the minute is over at once, and the day is not
    )
    server = start(None, patched, tokens_per_day=3)
    alice = bearer("alice")
    assert [infer(server, alice).status_code for _ in range(4)] == [200, 200, 200, 429]
    for number in range(20 * TABLE):
        answer = infer(server, bearer(f"user-{number}"))
        if answer.status_code == 429:  # until the part of the minute in progress is over
            assert answer.headers["retry-after"] == "1"
    assert [infer(server, alice).status_code for _ in range(2)] == [429, 429]


def test_unlimited_keys_need_no_row(start: Callable[..., Running]) -> None:
    keys = Keys()
    for number in range(3 * TABLE):
        keys.add(f"free-{number}")
    server = start(keys, **HELD)
    for number in range(TABLE + 1):
        infer(server, bearer(f"user-{number}"))
    for name in keys.secrets:
        assert infer(server, keys.bearer(name)).status_code == 200


def test_oversized_token_header_is_refused_before_parsing(start: Callable[..., Running]) -> None:
    server = start()
    for length, said in (
        (900, "header of the token has more than 1024"),
        (15_000, "header of the token|The token has"),
    ):
        answer = infer(server, bearer("alice", key=OTHER, header={"x": "y" * length}))
        assert answer.status_code == 401
        assert any(each in answer.text for each in said.split("|")), answer.text
    assert infer(server, bearer("alice", x="y" * 4000)).status_code == 200, "its claims are signed"


ORDERED = """
import asyncio, os
from inferstream import MLModel, request_context


class Slow(MLModel):
    separates_principals = True

    async def predict(self, payload):
        with open(os.environ["TEST_LOG"], "a") as log:
            print(request_context().cache_salt, os.getpid(), file=log)
        while os.path.exists(os.environ["TEST_LOG"] + ".held"):
            await asyncio.sleep(0.01)
        return self.encode_response(["x"])

    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield await self.predict(payload)
"""


@pytest.fixture(scope="module", params=HOSTS)
def ordered(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, Keys]]:
    """One call at a time in each process, which writes its principal and waits as long as a file is there."""
    root = tmp_path_factory.mktemp("ordered")
    keys = Keys()
    for name in ("greedy", "meek"):
        keys.add(name, ("infer", "stream"))
    keys.add("operator", ("metrics",))
    described = {"inputs": [{"name": "prompt", **TEXT}], "outputs": [{"name": "text", **TEXT}]}
    write_model(root / "models", "slow", "ordered.Slow", ORDERED, name="slow", max_concurrency=1, **described)
    settings = {"keys_file": keys.write(root), **HOSTS[request.param]}
    (root / "models" / "settings.json").write_text(json.dumps(settings))
    server = Running(root / "models", within=60)
    yield server, keys
    assert server.stop() == 0, server.text()


WITH_HEADER = {f"{name} header": ask for name, ask in FACES.items()}


@pytest.mark.parametrize("api", [*WITH_HEADER, *URGENT])
def test_key_priority_does_not_delay_other_keys(ordered: tuple[Running, Keys], api: str) -> None:
    server, keys = ordered
    ask = (WITH_HEADER | URGENT)[api]
    urgent = {"x-request-priority": "1"} if api in WITH_HEADER else {}
    held = server.log.with_name(server.log.name + ".held")
    held.touch()
    server.log.write_text("")
    with ThreadPoolExecutor(11) as pool:
        try:
            calls = [pool.submit(ask, server, "slow", keys.bearer("greedy") | urgent) for _ in range(8)]
            calls += [pool.submit(FACES["rest"], server, "slow", keys.bearer("meek")) for _ in range(3)]
            eventually(lambda: begun(server, keys, "slow") == len(calls))
        finally:
            held.unlink()
        assert all(call.result()[0] for call in calls)
    lines = [line.split() for line in server.log.read_text().splitlines()]
    assert Counter(name for name, _ in lines) == {"greedy": 8, "meek": 3}
    for process in {process for _, process in lines}:
        order = [name for name, its in lines if its == process]
        waited = "".join(name[0] for name in order[1:]).rstrip("g")
        assert max(map(len, waited.split("m"))) <= 2, order


def begun(server: Running, keys: Keys, model: str) -> float:
    """How many calls of the model run or wait for their turn."""
    page = httpx.get(f"{server.url}/metrics", headers=keys.bearer("operator")).text
    meters = ("inferstream_queue_depth", "inferstream_calls_active")
    return sum(metric(page, name, model=model) for name in meters)
