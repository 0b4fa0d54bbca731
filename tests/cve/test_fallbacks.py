"""Credentials that are wrong end a request: no other kind of them, and nobody, is taken in their place.

Class of LiteLLM CVE-2026-59822: a key that was refused fell through to an empty principal, which was allowed.
"""

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

from inferstream.plugins.keys.document import MAX_NAME
from tests.broker import Broker
from tests.cve.principals import OTHER, Keys, audited, serve_app, token, unsigned
from tests.e2e.test_kafka import Endpoint
from tests.e2e.test_key_matrix import EVERYBODY, needs, rpc_needs, rpcs, status_of
from tests.grpc_web import BINARY, framed, headers_of
from tests.serving import Running, fp32
from tests.unit.server.test_actions import every_route

CVES = ("CVE-2026-59822",)

APP = """
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
"""

KEYS = Keys()
GOOD = KEYS.add("alice")
OTHER_GOOD = KEYS.add("bob")
EXPIRED = KEYS.add("old", expires="2020-01-01T00:00:00Z")
TOKEN = token("alice")

WRONG: dict[str, list[tuple[str, str]]] = {
    "nothing": [],
    "an empty key": [("x-api-key", "")],
    "a scheme alone": [("authorization", "Bearer")],
    "a key of nobody": [("authorization", f"Bearer ifs_k0_{'A' * 43}")],
    "a key that is cut": [("authorization", f"Bearer {GOOD[:-1]}")],
    "a key with more": [("x-api-key", f"{GOOD}A")],
    "a key in capitals": [("x-api-key", GOOD.upper())],
    "the id of a key": [("x-api-key", "k0")],
    "an expired key": [("x-api-key", EXPIRED)],
    "a key as a token": [("authorization", f"Bearer eyJ{GOOD}")],
    "no scheme": [("authorization", GOOD)],
    "another scheme": [("authorization", f"Basic {GOOD}")],
    "a scheme of its own": [("authorization", f"Token {GOOD}")],
    "two keys": [("authorization", f"Bearer {GOOD}"), ("x-api-key", OTHER_GOOD)],
    "a key and a wrong one": [("authorization", f"Bearer {GOOD}"), ("x-api-key", "wrong")],
    "a wrong key and a key": [("authorization", "Bearer wrong"), ("x-api-key", GOOD)],
    "a key and an empty one": [("authorization", f"Bearer {GOOD}"), ("x-api-key", "")],
    "a key and a token": [("authorization", f"Bearer {GOOD}"), ("x-api-key", TOKEN)],
    "a token and a wrong key": [("authorization", f"Bearer {TOKEN}"), ("x-api-key", "wrong")],
    "a key and a wrong token": [("authorization", f"Bearer {token('alice', OTHER)}"), ("x-api-key", GOOD)],
    "a token of another signature": [("authorization", f"Bearer {token('alice', OTHER)}")],
    "a token without a signature": [("authorization", f"Bearer {unsigned('alice')}")],
    "a token of another issuer": [("authorization", f"Bearer {token('alice', iss='https://other.example')}")],
    "a token for others": [("authorization", f"Bearer {token('alice', aud='others')}")],
    "a token that is over": [("authorization", f"Bearer {token('alice', exp=1)}")],
    "a token of nobody": [("authorization", f"Bearer {token('')}")],
    "a token of a long name": [("authorization", f"Bearer {token('a' * (MAX_NAME + 1))}")],
    "a token whose name has a line break": [("authorization", f"Bearer {token('alice' + chr(10))}")],
    "a token whose name has a NUL": [("authorization", f"Bearer {token('alice' + chr(0))}")],
    "a token whose name is no text": [("authorization", f"Bearer {token(['alice'])}")],
    "a token with a long header": [("authorization", f"Bearer {token('alice', header={'x': 'y' * 900})}")],
    "an unknown key of the issuer": [("authorization", f"Bearer {token('alice', header={'kid': 'two'})}")],
    "a cookie": [("cookie", f"authorization=Bearer {GOOD}; x-api-key={GOOD}")],
    "a proxy's header": [("proxy-authorization", f"Bearer {GOOD}"), ("x-forwarded-user", "alice")],
}
"""Headers, none of which may do anything that needs a key."""

HOSTS: dict[str, tuple[dict[str, int], tuple[str, ...]]] = {
    "in-process": ({}, ()),
    "workers-and-front-ends": ({"parallel_workers": 1, "frontends": 2}, ()),
    "one-port": ({}, ("--one-port",)),
}


@pytest.fixture(scope="module", params=HOSTS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("fallbacks")
    settings, flags = HOSTS[request.param]
    running = serve_app(root, KEYS, APP, flags=flags, **settings)
    yield running
    assert running.stop() == 0, running.text()
    assert "Traceback" not in running.text()
    refused = [line for line in audited(root) if line["end"] != "success"]
    assert {line["principal"] for line in refused} == {None}, "a refusal names nobody"


@pytest.mark.parametrize("what", WRONG)
def test_http_routes_refuse_wrong_credentials(server: Running, what: str) -> None:
    with httpx.Client(timeout=30) as client:
        for method, path in every_route():
            if needs(method, path) == EVERYBODY:
                continue
            answer = client.request(
                method, server.url + path, headers=[("accept", "text/html"), *WRONG[what]]
            )
            assert answer.status_code == 401, (method, path, answer.text)
            assert answer.headers["www-authenticate"] == "Bearer"
            assert GOOD not in answer.text


@pytest.mark.parametrize("what", WRONG)
def test_mcp_and_json_rpc_refuse_wrong_credentials(server: Running, what: str) -> None:
    call = {"jsonrpc": "2.0", "id": 1}
    tool = {**call, "method": "tools/call", "params": {"name": "double", "arguments": {"n": 1}}}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    double = {**call, "method": "double", "params": {"n": 1}}
    messages = [
        ("/mcp", each)
        for each in (tool, cancel, {**call, "method": "tools/list"}, {**call, "method": "ping"})
    ]
    messages += [(path, each) for path in ("/rpc", "/jsonrpc") for each in (double, [double, double])]
    for path, message in messages:
        headers = [("mcp-session-id", "s"), *WRONG[what]]
        answer = httpx.post(server.url + path, json=message, headers=headers, timeout=30)
        assert answer.status_code == 401, (path, message, answer.text)
        assert "result" not in answer.text
        assert "double" not in answer.text.replace('"method"', "")


@pytest.mark.parametrize("what", WRONG)
def test_grpc_refuses_wrong_credentials(server: Running, what: str) -> None:
    metadata: Any = WRONG[what]
    with grpc.insecure_channel(server.grpc) as channel:
        for path, client_streams, server_streams in asyncio.run(rpcs()):
            if rpc_needs(path) == EVERYBODY:
                continue
            code = status_of(channel, path, client_streams, server_streams, Several(metadata))
            assert code is grpc.StatusCode.UNAUTHENTICATED, path


class Several(dict[str, str]):
    """Metadata in which a name may be there twice."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs

    def items(self) -> Any:
        return self.pairs


@pytest.mark.parametrize("what", WRONG)
def test_grpc_web_refuses_wrong_credentials(server: Running, what: str) -> None:
    for path, client_streams, server_streams in asyncio.run(rpcs()):
        if client_streams or server_streams or rpc_needs(path) == EVERYBODY:
            continue
        headers = [*headers_of(BINARY).items(), *WRONG[what]]
        answer = httpx.post(server.url + path, content=framed(b""), headers=headers, timeout=30)
        text = answer.text + str(answer.headers)
        status = answer.headers.get("grpc-status") or text.partition("grpc-status:")[2].split()[0].strip("'")
        assert status == "16", (path, text)


@pytest.mark.parametrize("what", WRONG)
def test_websocket_refuses_wrong_credentials(server: Running, what: str) -> None:
    url = f"{server.url.replace('http', 'ws', 1)}/v2/models/double/stream"
    with pytest.raises(InvalidStatus) as refused:
        connect(url, additional_headers=WRONG[what])
    assert refused.value.response.status_code == 401


@pytest.mark.parametrize("offered", [["wrong"], [GOOD, OTHER_GOOD], [GOOD, "wrong"], [""], [GOOD[:-1]]])
def test_websocket_refuses_wrong_subprotocols(server: Running, offered: list[str]) -> None:
    url = f"{server.url.replace('http', 'ws', 1)}/v2/models/double/stream"
    protocols: Any = ["inferstream", *(f"inferstream.key.{key}" for key in offered)]
    with pytest.raises(InvalidStatus) as refused:
        connect(url, subprotocols=protocols)
    assert refused.value.response.status_code == 401


@pytest.mark.parametrize("what", WRONG)
def test_metrics_port_refuses_wrong_credentials(server: Running, what: str) -> None:
    if not server.metrics_port:
        pytest.skip("one port has the metrics too")
    answer = httpx.get(f"http://127.0.0.1:{server.metrics_port}/metrics", headers=WRONG[what], timeout=30)
    assert answer.status_code == 401
    assert "inferstream_" not in answer.text


def test_valid_and_invalid_credentials_do_not_affect_each_other(
    server: Running,
) -> None:
    body = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [4]}]}
    with httpx.Client(timeout=30) as client:  # one connection, whose heads the server remembers
        for what, headers in WRONG.items():
            for good in ({"x-api-key": GOOD}, {"authorization": f"Bearer {TOKEN}"}):
                url = f"{server.url}/v2/models/double/infer"
                assert client.post(url, json=body, headers=good).status_code == 200
                assert client.post(url, json=body, headers=headers).status_code == 401, what


async def test_kafka_refuses_wrong_credentials(tmp_path: Path) -> None:
    broker = Broker()
    try:
        (tmp_path / "keys").mkdir()
        endpoint = Endpoint(tmp_path, broker, keys_file=KEYS.write(tmp_path / "keys"))
        good, echo = json.dumps(fp32([1.0])).encode(), {"mlserver-model": "echo"}
        sent = {what: dict(headers) for what, headers in WRONG.items() if len(dict(headers)) == len(headers)}
        await broker.send(endpoint.asked, *((what, good, echo | headers) for what, headers in sent.items()))
        await broker.send(endpoint.asked, ("right", good, echo | {"x-api-key": GOOD}))
        answers = await endpoint.answers(*sent, "right")
        assert {answers[what]["code"] for what in sent} == {"unauthenticated"}
        assert answers["right"]["outputs"]
        assert endpoint.running.stop() == 0, endpoint.running.text()
    finally:
        broker.stop()
