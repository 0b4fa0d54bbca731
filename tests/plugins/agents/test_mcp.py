"""Messages of the Model Context Protocol, over the application without a port."""

import json
from typing import Any

import pytest

from inferstream.plugins.agents.mcp import request_id
from tests.plugins.agents.calling import call


async def said(client: Any, method: str, params: Any = None, **headers: str) -> Any:
    response = await client.post(
        "/mcp", json=call(method, params, id=1), headers={k.replace("_", "-"): v for k, v in headers.items()}
    )
    return response.json()


async def test_handshake_negotiates_protocol_version(served) -> None:
    _, client = served
    response = await client.post("/mcp", json=call("initialize", {"protocolVersion": "2025-06-18"}, id=1))
    result = response.json()["result"]
    assert (result["protocolVersion"], result["capabilities"]) == ("2025-06-18", {"tools": {}})
    assert result["serverInfo"]["name"] == "inferstream"
    assert len(response.headers["mcp-session-id"]) == 36
    newest = await said(client, "initialize", {"protocolVersion": "2030-01-01"})
    assert newest["result"]["protocolVersion"] == "2025-11-25"


async def test_notifications_and_responses_have_no_reply(served) -> None:
    _, client = served
    for message in (
        call("notifications/initialized"),
        call("notifications/cancelled", {"requestId": 5}),
        call("notifications/cancelled", []),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
    ):
        response = await client.post("/mcp", json=message)
        assert (response.status_code, response.content) == (202, b"")


@pytest.mark.parametrize(
    ("body", "status", "code", "text"),
    [
        (b"{", 400, -32700, "Parse error"),
        (b"[]", 400, -32600, "no batches"),
        (b'{"id": 1, "method": "ping"}', 400, -32600, '"jsonrpc" must be "2.0"'),
        (json.dumps(call("prompts/list", id=1)).encode(), 200, -32601, 'no method "prompts/list"'),
        (json.dumps(call("tools/call", {"name": 1}, id=1)).encode(), 200, -32602, '"name" must be'),
        (json.dumps(call("tools/call", [1], id=1)).encode(), 200, -32602, '"name" must be'),
        (
            json.dumps(call("tools/call", {"name": "nobody"}, id=1)).encode(),
            200,
            -32602,
            "Unknown tool: Model nobody not found",
        ),
    ],
)
async def test_malformed_messages_are_errors(served, body: bytes, status: int, code: int, text: str) -> None:
    _, client = served
    response = await client.post("/mcp", content=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code)
    assert text in error["message"]


async def test_unsupported_protocol_version_is_refused(served) -> None:
    _, client = served
    response = await client.post(
        "/mcp", json=call("ping", id=1), headers={"mcp-protocol-version": "2024-11-05"}
    )
    assert response.status_code == 400
    assert "2025-11-25, 2025-06-18, 2025-03-26, and not '2024-11-05'" in response.json()["error"]["message"]


async def test_oversized_body_keeps_status(served) -> None:
    _, client = served
    response = await client.post("/mcp", content=b" " * 100_001)
    assert response.status_code == 413


@pytest.mark.parametrize(
    ("session", "id", "expected"),
    [
        ("a", 1, "a:1"),
        ("a", "x", "a:x"),
        ("", 1, None),
        ("a b", 1, None),
        ("a", None, None),
        ("a", "x" * 129, None),
    ],
)
def test_call_ids_belong_to_a_session(session: str, id: Any, expected: str | None) -> None:
    assert request_id(session, id) == expected
