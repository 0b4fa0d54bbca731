"""Models as tools: the client of the Model Context Protocol, as it is, against a running server."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

mcp = pytest.importorskip("mcp", exc_type=ImportError)

from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

from tests.serving import Running, eventually

pytestmark = pytest.mark.filterwarnings("default")  # those of what it depends on

APP = '''
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal

import asyncio
from inferstream import App

app = App()


@app.model
def add(a: int, b: int = 2) -> int:
    """Adds two numbers."""
    return a + b


@app.model
def shape(kind: Literal["round", "square"]) -> dict:
    return {"kind": kind, "corners": 4 if kind == "square" else 0}


@app.model
def say(text: str) -> Iterator[str]:
    """Says a text, word by word."""
    yield from text.split(" ")


@app.model
def squares(n: int) -> Iterator[int]:
    yield from (i * i for i in range(n))


@app.model
def now() -> int:
    return 7


@app.model
def broken(n: int) -> int:
    raise ValueError("a secret")


@app.model
async def endless(place: str) -> AsyncIterator[int]:
    try:
        for i in range(10**9):
            yield i
            await asyncio.sleep(0.01)
    finally:
        Path(place).write_text("closed")
'''


@pytest.fixture(scope="module", params=[0, 2], ids=["in-process", "workers"])
def tools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("tools")
    (folder / "app.py").write_text(APP)
    running = Running(
        folder, target=str(folder / "app.py"), within=120, INFERSTREAM_PARALLEL_WORKERS=str(request.param)
    )
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_functions_become_tools_with_schemas(tools: Running, mode: str) -> None:
    async with Client(f"{tools.url}/mcp", mode=mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {*listed} == {"add", "shape", "say", "squares", "now", "broken", "endless"}
    assert listed["add"].description == "Adds two numbers."
    schema = listed["add"].input_schema
    assert schema["required"] == ["a"]
    assert schema["properties"]["a"]["type"] == "integer"
    assert schema["properties"]["b"]["default"] == 2
    assert listed["shape"].input_schema["properties"]["kind"]["enum"] == ["round", "square"]


async def test_calls_return_text_and_structured_content(tools: Running, mode: str) -> None:
    async with Client(f"{tools.url}/mcp", mode=mode) as client:
        answer = await client.call_tool("add", {"a": 3})
        assert (answer.content[0].text, answer.structured_content, answer.is_error) == (
            "5",
            {"result": 5},
            False,
        )
        assert (await client.call_tool("now")).content[0].text == "7"
        answer = await client.call_tool("shape", {"kind": "square"})
        assert answer.structured_content == {"kind": "square", "corners": 4}
        answer = await client.call_tool("say", {"text": "tokens as they come"})
        assert answer.content[0].text == "tokensastheycome"
        answer = await client.call_tool("squares", {"n": 4})
        assert (answer.content[0].text, answer.structured_content) == ("[0,1,4,9]", {"result": [0, 1, 4, 9]})


async def test_streams_are_progress(tools: Running) -> None:
    told: list[tuple[float, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async with Client(f"{tools.url}/mcp") as client:
        answer = await client.call_tool("say", {"text": "one two three"}, progress_callback=progress)
        whole = await client.call_tool("add", {"a": 1}, progress_callback=progress)
    assert answer.content[0].text == "onetwothree"
    assert told == [(1, "one"), (2, "two"), (3, "three")]
    assert whole.content[0].text == "3"


async def test_errors_are_results_with_message(tools: Running) -> None:
    async with Client(f"{tools.url}/mcp") as client:
        answer = await client.call_tool("add", {"a": "three"})
        assert answer.is_error
        assert '"a"' in answer.content[0].text
        answer = await client.call_tool("add", {"c": 1})
        assert answer.is_error
        assert "c" in answer.content[0].text
        answer = await client.call_tool("broken", {"n": 1})
        assert answer.is_error
        assert "secret" not in answer.content[0].text
        with pytest.raises(mcp.MCPError, match="Unknown tool: Model nobody not found"):
            await client.call_tool("nobody", {})


async def test_client_timeout_ends_model(tools: Running, tmp_path: Path) -> None:
    place = tmp_path / "closed"

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        begun.set()

    begun = asyncio.Event()
    async with Client(f"{tools.url}/mcp") as client:
        call = asyncio.ensure_future(
            client.call_tool("endless", {"place": str(place)}, progress_callback=progress)
        )
        await asyncio.wait_for(begun.wait(), 60)
        call.cancel()
        await asyncio.wait([call])
        await asyncio.to_thread(eventually, place.exists)
        assert (await client.call_tool("add", {"a": 1})).content[0].text == "3"


def rpc(server: Running, method: str, id: int | None = 1, headers: dict | None = None, **params: object):
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    return httpx.post(f"{server.url}/mcp", json=message, headers=headers, timeout=60)


def test_cancelled_notification_on_other_connection_ends_model(tools: Running, tmp_path: Path) -> None:
    place = tmp_path / "closed"
    session = rpc(tools, "initialize", protocolVersion="2025-06-18").headers["mcp-session-id"]
    arguments = {"place": str(place)}
    message = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "endless", "arguments": arguments, "_meta": {"progressToken": "p"}},
    }
    own = {"mcp-session-id": session}
    with httpx.stream("POST", f"{tools.url}/mcp", json=message, headers=own, timeout=60) as stream:
        lines = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: "))
        assert next(lines)["params"] == {"progressToken": "p", "progress": 1, "message": "0"}
        other = {"mcp-session-id": "another"}
        assert rpc(tools, "notifications/cancelled", None, other, requestId=7).status_code == 202
        next(lines)
        assert not place.exists()
        assert rpc(tools, "notifications/cancelled", None, own, requestId=7).status_code == 202
        last = [*lines][-1]
    assert last["result"]["isError"]
    assert last["id"] == 7
    eventually(place.exists)


def test_messages_without_model_call(tools: Running) -> None:
    answer = rpc(tools, "initialize", protocolVersion="1999-01-01")
    assert answer.json()["result"]["protocolVersion"] == "2025-11-25"
    assert rpc(tools, "ping").json() == {"jsonrpc": "2.0", "result": {}, "id": 1}
    assert (rpc(tools, "notifications/initialized", None).status_code) == 202
    unknown = rpc(tools, "resources/list").json()
    assert unknown["error"] == {
        "code": -32601,
        "message": 'The server has no method "resources/list"; it has tools.',
    }
    wrong = rpc(tools, "tools/call", name=1)
    assert wrong.json()["error"]["code"] == -32602
    batch = httpx.post(f"{tools.url}/mcp", json=[{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
    assert (batch.status_code, batch.json()["error"]["message"]) == (
        400,
        "MCP has one message in a body, and no batches.",
    )
    old = rpc(tools, "ping", headers={"mcp-protocol-version": "2024-11-05"})
    assert (old.status_code, "2025-11-25" in old.json()["error"]["message"]) == (400, True)
    assert httpx.get(f"{tools.url}/mcp").status_code == 405
    assert httpx.delete(f"{tools.url}/mcp").status_code == 405
    page = httpx.post(f"{tools.url}/mcp", json={}, headers={"origin": "https://evil.example"})
    assert page.status_code == 403


async def test_key_lists_only_its_tools(tmp_path: Path) -> None:
    key = "ifs_mine_" + "A" * 43
    entry = {"id": "mine", "principal": "me", "sha256": hashlib.sha256(key.encode()).hexdigest()}
    rights = {"scopes": ["infer"], "models": ["add", "say"]}
    (tmp_path / "keys.json").write_text(json.dumps({"version": 1, "keys": [entry | rights]}))
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    running = Running(
        folder, target=str(folder / "app.py"), within=60, INFERSTREAM_KEYS_FILE=str(tmp_path / "keys.json")
    )
    try:
        assert rpc(running, "tools/list").status_code == 401
        own = create_mcp_http_client(headers={"authorization": f"Bearer {key}"})
        async with own, Client(streamable_http_client(f"{running.url}/mcp", http_client=own)) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {"add", "say"}
            assert (await client.call_tool("add", {"a": 1})).content[0].text == "3"
        held = {"authorization": f"Bearer {key}"}
        assert rpc(running, "tools/call", headers=held, name="squares", arguments={"n": 1}).status_code == 403
        streamed = {"name": "say", "arguments": {"text": "a"}, "_meta": {"progressToken": 1}}
        assert rpc(running, "tools/call", headers=held, **streamed).status_code == 403  # no scope for streams
    finally:
        assert running.stop() == 0, running.text()
