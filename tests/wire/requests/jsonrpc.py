"""JSON-RPC: single requests, batches and streams, in both spellings."""

from typing import Any

from ..http import Http, get, one, post


def call(method: str, params: object, id: object = 1, **more: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": id, **more}


NUMBERS = {"a": [[1, 2], [3, 4]], "b": "hällo"}
NOTIFICATION = {"jsonrpc": "2.0", "method": "text", "params": ["hällo"]}


def spelling(path: str) -> list[Http]:
    return [
        post(f"{path} by name", path, call("text", {"text": "hällo"})),
        post(f"{path} by position", path, call("predict.text", ["hällo"], "id")),
        post(f"{path} arrays", path, call("declared", NUMBERS)),
        post(f"{path} a version", path, call("versions:1", [])),
        post(f"{path} a model of streams", path, call("running-sum", [[1.5, 2]])),
        post(f"{path} unknown argument", path, call("text", {"texts": "x"})),
        post(f"{path} missing argument", path, call("text", {})),
        post(f"{path} wrong argument", path, call("text", {"text": 5})),
        post(f"{path} unknown model", path, call("nobody", {})),
        post(f"{path} method of a stream", path, call("stream.text", {})),
        post(f"{path} failing", path, call("failing", {})),
        post(f"{path} not JSON", path, b'{"jsonrpc'),
        post(f"{path} not an object", path, b"5"),
        post(f"{path} another version of the protocol", path, {"jsonrpc": "1.0", "method": "text", "id": 1}),
        post(f"{path} notification", path, NOTIFICATION),
        post(f"{path} batch", path, [call("text", ["a"]), NOTIFICATION, 5, call("nobody", [], None)]),
        post(f"{path} empty batch", path, []),
        post(f"{path} stream", f"{path}/stream/text", {"params": {"text": "hällo"}}),
        post(f"{path} stream of an unknown model", f"{path}/stream/nobody", {"params": {}}),
        post(f"{path} stream of wrong params", f"{path}/stream/text", {"params": {"text": 5}}),
        get(f"{path} by GET", path),
        one(f"{path} by PUT", "PUT", path, {}),
    ]


CASES = [*spelling("/rpc"), *spelling("/jsonrpc")]
