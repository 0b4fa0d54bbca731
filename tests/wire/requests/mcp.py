"""The Model Context Protocol: its handshake, the list of tools, calls, progress and what is refused."""

from typing import Any

from ..http import Http, get, one, post
from .jsonrpc import call

PATH = "/mcp"
LATEST = "2025-11-25"


def tool(
    name: str, model: object, arguments: object, headers: dict[str, str] | None = None, **more: Any
) -> Http:
    params = {"name": model, "arguments": arguments, **more}
    return post(name, PATH, call("tools/call", params), headers=headers)


def ask(name: str, method: str, params: object = None, headers: dict[str, str] | None = None) -> Http:
    return post(name, PATH, call(method, {} if params is None else params), headers=headers)


def handshake(version: str) -> dict[str, object]:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}


HELLO = {"text": "hällo"}
CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
PROGRESS = {"_meta": {"progressToken": "p"}}
SESSION = {"Mcp-Session-Id": "a-session", "MCP-Protocol-Version": LATEST}

CASES = [
    ask("initialize", "initialize", handshake("2025-06-18")),
    ask("initialize with a revision of the future", "initialize", handshake("2099-01-01")),
    post("initialized", PATH, {"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ask("ping", "ping"),
    ask("list", "tools/list"),
    tool("call", "text", HELLO),
    tool("call in a session", "text", HELLO, SESSION),
    tool("call with arrays", "declared", {"a": [[1, 2], [3, 4]], "b": "hällo"}),
    tool("call of a stream", "running-sum", {"x": [1.5, 2]}),
    tool("call of a stream with progress", "running-sum", {"x": [1.5, 2]}, **PROGRESS),
    tool("call with progress and no stream", "text", HELLO, **PROGRESS),
    tool("call with an unknown argument", "text", {"texts": "x"}),
    tool("call without its argument", "text", {}),
    tool("call with a wrong argument", "text", {"text": 5}),
    tool("call of a model without declared inputs", "failing", {}),
    tool("call of an unknown tool", "nobody", {}),
    tool("call without a name", 5, {}),
    tool("call with a list of arguments", "text", ["hällo"]),
    post("cancelled", PATH, CANCELLED),
    post("cancelled in a session", PATH, CANCELLED, headers=SESSION),
    post("a response", PATH, {"jsonrpc": "2.0", "id": 1, "result": {}}),
    ask("unknown method", "resources/list"),
    ask("unknown revision", "tools/list", headers={"MCP-Protocol-Version": "1999-01-01"}),
    post("batch", PATH, [call("ping", {})]),
    post("not JSON", PATH, b'{"jsonrpc'),
    post("another version of JSON-RPC", PATH, {"jsonrpc": "1.0", "method": "ping", "id": 1}),
    ask("from a page of another origin", "ping", headers={"Origin": "http://elsewhere.example"}),
    get("by GET", PATH, headers={"Accept": "text/event-stream"}),
    one("by DELETE", "DELETE", PATH, headers=SESSION),
]
