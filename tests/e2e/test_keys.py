"""Keys at every door, with the clients that people have."""

import asyncio
import hashlib
import json
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import httpx_sse
import openai
import pytest
import tritonclient.grpc
import tritonclient.http
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.protos.requests_pb2 import CancelRequest, CancelResponse
from tests.serving import Running, eventually

APP = """
import asyncio
from collections.abc import AsyncIterator
from inferstream import App

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
async def forever(n: int) -> AsyncIterator[int]:
    while True:
        yield n
        await asyncio.sleep(0.01)
"""

SECRETS = {
    id: f"ifs_{id}_{secrets.token_urlsafe(32)}"
    for id in ("all", "other", "expired", "infers", "doubles", "rated", "brief", "five", "revoked")
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
    entry("brief", limits={"tokens_per_day": 3}),
    entry("five", limits={"requests_per_second": 0.001, "burst": 5}),
    entry("revoked"),
]


def write_keys(folder: Path, keys: list[dict[str, Any]]) -> None:
    (folder / "keys.json").write_text(json.dumps({"version": 1, "keys": keys}))


def start(folder: Path, **settings: Any) -> Running:
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    write_keys(folder, KEYS)
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
        ("GET", "/docs", "docs"),
        ("GET", "/v2/access", "access"),
        ("GET", "/v2/models/double", None),
        ("GET", "/v2", None),
        ("GET", "/v1/models", None),
    ],
)
def test_each_route_needs_a_valid_key_with_its_scope(
    server: Running, method: str, path: str, scope: str | None
) -> None:
    for headers, status in REFUSED:
        answer = httpx.request(method, server.url + path, headers=headers)
        assert answer.status_code == status, answer.text
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "ifs_" not in answer.text
    if scope not in (None, "infer"):
        assert httpx.request(method, server.url + path, headers=bearer("infers")).status_code == 403


def test_the_right_key_opens_and_probes_are_open(server: Running) -> None:
    url = f"{server.url}/v2/models/double/infer"
    assert httpx.post(url, json=v2(2), headers=bearer("all")).json()["outputs"][0]["data"] == [4]
    assert httpx.post(url, json=v2(2), headers={"x-api-key": SECRETS["all"]}).status_code == 200
    assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200
    assert httpx.post(f"{server.url}/v2/repository/index", headers=bearer("all")).status_code == 200
    assert httpx.get(f"{server.url}/docs", headers=bearer("all")).status_code == 200


def test_a_model_that_a_key_does_not_allow_looks_like_one_that_does_not_exist(server: Running) -> None:
    answers = [
        httpx.post(f"{server.url}/v2/models/{model}/infer", json=v2(1), headers=bearer("doubles"))
        for model in ("count", "nothing")
    ]
    assert [each.status_code for each in answers] == [403, 403]
    assert answers[0].text.replace("count", "nothing") == answers[1].text
    missing = httpx.post(f"{server.url}/v2/models/nothing/infer", json=v2(1), headers=bearer("all"))
    assert (missing.status_code, "double" in missing.text) == (404, False)


def test_the_metrics_port(server: Running) -> None:
    url = f"http://127.0.0.1:{server.metrics_port}/metrics"
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers=bearer("infers")).status_code == 403
    assert httpx.get(url, headers=bearer("all")).status_code == 200


def test_openai_raises_its_own_errors(server: Running) -> None:
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
    import numpy as np

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


def test_a_websocket_takes_a_key_as_header_or_subprotocol_and_never_repeats_it(server: Running) -> None:
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


def test_a_stream_that_runs_out_ends_with_an_event(server: Running) -> None:
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


def test_a_limit_is_exact_over_front_ends(server: Running) -> None:
    def ask(_: int) -> int:
        return httpx.post(
            f"{server.url}/v2/models/double/infer", json=v2(1), headers=bearer("five")
        ).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = [*pool.map(ask, range(40))]
    assert (statuses.count(200), statuses.count(429)) == (5, 35)


def test_only_the_principal_of_a_call_cancels_it(server: Running) -> None:
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


def test_only_the_principal_of_a_stream_resumes_it(server: Running) -> None:
    url = f"{server.url}/v2/models/count/infer_stream"
    first = httpx.post(url, json=v2(3), headers={**bearer("all"), "prefer": "resumable"})
    assert first.headers["preference-applied"] == "resumable"
    last = next(line for line in first.text.splitlines() if line.startswith("id:"))[3:].strip()

    def resume(**headers: str) -> httpx.Response:
        return httpx.get(url, headers={"last-event-id": last, "accept": "text/event-stream", **headers})

    assert resume().status_code == 401
    assert resume(**bearer("other")).status_code in (404, 410)
    assert resume(**{"x-api-key": SECRETS["all"]}).status_code == 200


def test_a_revoked_key_ends_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
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
    assert (refused["principal"], refused["end"]) == ("", "unauthenticated")
    assert not any(secret in (folder / "audit.jsonl").read_text() for secret in SECRETS.values())
    assert "Traceback" not in server.text()
