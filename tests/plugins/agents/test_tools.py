"""Tools: their list, and what calls of them return."""

import json
from typing import Any

import pytest

from inferstream.errors import PayloadTooLarge
from inferstream.plugins.agents.tools import ToolItems
from tests.plugins.agents.calling import call


async def called(client: Any, name: str, token: Any = None, **arguments: Any) -> Any:
    params = {"name": name, "arguments": arguments} | (
        {} if token is None else {"_meta": {"progressToken": token}}
    )
    return await client.post("/mcp", json=call("tools/call", params, id="c"))


async def test_functions_are_tools_and_undeclared_classes_are_not(served) -> None:
    _, client = served
    listed = (await client.post("/mcp", json=call("tools/list", id=1))).json()["result"]["tools"]
    tools = {tool["name"]: tool for tool in listed}
    assert {*tools} == {"subtract", "count", "predict.odd"}
    assert tools["subtract"]["description"] == "Calls the model subtract."
    assert tools["count"]["inputSchema"] == {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "fail": {"type": "boolean", "default": False}},
        "required": ["n"],
    }


async def test_results_are_text_and_structured_content(served) -> None:
    _, client = served
    assert (await called(client, "subtract", minuend=5, subtrahend=2)).json() == {
        "jsonrpc": "2.0",
        "result": {"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}},
        "id": "c",
    }
    items = (await called(client, "count", n=3)).json()["result"]
    assert items == {
        "content": [{"type": "text", "text": "[0,1,2]"}],
        "structuredContent": {"result": [0, 1, 2]},
    }


async def test_items_are_notifications_before_result(served) -> None:
    _, client = served
    response = await called(client, "count", token="t", n=2)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    assert [event["params"] for event in events[:-1]] == [
        {"progressToken": "t", "progress": 1, "message": "0"},
        {"progressToken": "t", "progress": 2, "message": "1"},
    ]
    assert events[-1]["id"] == "c"
    assert events[-1]["result"]["structuredContent"] == {"result": [0, 1]}
    whole = await called(client, "subtract", token="t", minuend=5, subtrahend=2)
    assert whole.headers["content-type"] == "application/json"


@pytest.mark.parametrize("token", [None, 4])
async def test_failures_are_results(served, token: int | None) -> None:
    found, client = served
    response = await called(client, "count", token=token, n=2, fail=True)
    text = response.text.splitlines()[-2][6:] if token else response.text
    assert json.loads(text) == {
        "jsonrpc": "2.0",
        "result": {"content": [{"type": "text", "text": "after all"}], "isError": True},
        "id": "c",
    }
    assert found.closed.is_set()
    wrong = (await called(client, "subtract", minuend="x")).json()["result"]
    assert wrong["isError"]
    assert "minuend" in wrong["content"][0]["text"]
    secret = (await called(client, "predict.odd", text="fail")).json()["result"]
    assert secret["isError"]
    assert "secret" not in secret["content"][0]["text"]


def test_text_chunks_are_joined_up_to_limit() -> None:
    items = ToolItems(15, single=False)
    for piece in (b'"a "', b'"b"'):
        items.add(piece)
    assert json.loads(items.result()) == {
        "content": [{"type": "text", "text": "a b"}],
        "structuredContent": {"result": "a b"},
    }
    with pytest.raises(PayloadTooLarge):
        items.add(b"0123456789")


def test_object_is_the_structured_content() -> None:
    items = ToolItems(100, single=True)
    items.add(b'{"n":1}')
    assert json.loads(items.result()) == {
        "content": [{"type": "text", "text": '{"n":1}'}],
        "structuredContent": {"n": 1},
    }
