"""What a message of JSON-RPC 2.0 asks for, and the errors of its specification."""

import json
from typing import Any

import pytest

from inferstream.plugins.agents.messages import MAX_CALLS
from tests.plugins.agents.calling import call, post


async def test_positional_and_named_arguments(served) -> None:
    _, client = served
    for params in ([42, 23], {"subtrahend": 23, "minuend": 42}):
        for method in ("subtract", "predict.subtract"):
            answer = await post(client, call(method, params, id=3))
            assert answer == {"jsonrpc": "2.0", "result": 19, "id": 3}
    for name in ("predict.odd", "predict.odd:2", "predict.predict.odd:2"):
        assert (await post(client, call(name, ["x"], id="a")))["result"] == "x"


@pytest.mark.parametrize(
    ("document", "number", "id", "text"),
    [
        (b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar"', -32700, None, "Parse error"),
        (b"\xff", -32700, None, "Parse error"),
        (b"", -32700, None, "Parse error"),
        (
            b'{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 1, "minuend": 2}}',
            -32600,
            None,
            '"minuend"',
        ),
        ({"jsonrpc": "2.0", "method": 1, "params": "bar"}, -32600, None, '"method"'),
        ({"method": "subtract", "id": 7}, -32600, 7, '"jsonrpc"'),
        ({"jsonrpc": "2.0", "method": "subtract", "id": {}}, -32600, None, '"id"'),
        ({"jsonrpc": "2.0", "method": "subtract", "id": True}, -32600, None, '"id"'),
        (5, -32600, None, "object"),
        ([], -32600, None, "empty"),
        ([1] * (MAX_CALLS + 1), -32600, None, f"at most {MAX_CALLS}"),
        (call("subtract", "bar", id=1), -32602, 1, '"params"'),
        (call("subtract", [1], id=1), -32602, 1, 'argument "subtrahend" is missing'),
        (call("subtract", [1, "x"], id=1), -32602, 1, 'argument "subtrahend" takes an integer'),
        (call("subtract", {"a": 1}, id="x"), -32602, "x", '"a" is no argument'),
        (call("foobar", id="1"), -32601, "1", "Model foobar not found"),
        (call("predict.foobar", id="1"), -32601, "1", "Model foobar not found"),
        (call("stream.count", [1], id=2), -32600, 2, "/rpc/stream/count"),
        (call("Undeclared", [1], id=2), -32602, 2, "declares no inputs"),
        (call("count", [2, True], id=2), -32000, 2, "after all"),
        (call("predict.odd", ["fail"], id=2), -32603, 2, "failed"),
    ],
)
async def test_errors(served, document: Any, number: int, id: Any, text: str) -> None:
    _, client = served
    answer = await post(client, document)
    assert (answer["jsonrpc"], answer["error"]["code"], answer["id"]) == ("2.0", number, id)
    assert text in answer["error"]["message"]
    assert "secret" not in json.dumps(answer)


@pytest.mark.parametrize("id", [2**64 + 1, -(2**63) - 1, 10**300 + 7, 1e30, 2.5, 2**64 - 1])
async def test_ids_are_returned_unchanged(served, id: float) -> None:
    _, client = served
    batch = [
        call("subtract", [1, 1], id=id),
        call("nobody", id=id),
        {"id": id},
        call("subtract", [2, 1], id=1),
    ]
    answers = [*await post(client, batch), await post(client, batch[0]), await post(client, batch[1])]
    found = [answer["id"] for answer in answers]
    assert found == [id, id, id, 1, id, id]
    assert [type(each) for each in found] == [type(each) for each in (id, id, id, 1, id, id)]
