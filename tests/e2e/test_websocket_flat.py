"""Flat JSON over a WebSocket: the answers are those of `generate_stream`."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.e2e.test_functions import running
from tests.serving import Running, write_model

FINAL = "triton_final_response"

COLUMNS = """
from inferstream import InferenceResponse, MLModel, ResponseOutput


class Shapes(MLModel):
    def predict(self, payload):
        seen = [f"{each.name} {each.datatype} {each.shape}" for each in payload.inputs]
        output = ResponseOutput(name="seen", datatype="BYTES", shape=[len(seen)], data=seen)
        return InferenceResponse(model_name=self.name, outputs=[output])
"""


@pytest.fixture(scope="module")
def functions(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    target = "app:app" if workers == 0 else None
    with running(tmp_path_factory.mktemp("flat") / "code", target, workers) as server:
        yield server


def asked(server: Running, model: str, *messages: Any) -> list[dict]:
    """The answers to messages, up to the last answer to the last of them."""
    found: list[dict] = []
    url = f"{server.url.replace('http', 'ws', 1)}/v2/models/{model}/stream"
    with connect(url, open_timeout=20, close_timeout=5) as socket:
        for message in messages:
            socket.send(json.dumps(message))
            while True:
                answer = json.loads(socket.recv(timeout=20))
                found.append(answer)
                if "error" in answer or answer.get(FINAL) or answer.get("parameters", {}).get(FINAL):
                    break
    return found


def events(server: Running, model: str, body: Any) -> list[dict]:
    answer = httpx.post(f"{server.url}/v2/models/{model}/generate_stream", json=body, timeout=20)
    assert answer.status_code == 200, answer.text
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line]


@pytest.mark.parametrize("named", [{}, {"id": "7"}])
def test_stream_equals_generate_stream_with_end(functions: Running, named: dict) -> None:
    body = {"prompt": "hi", **named}
    *items, last = asked(functions, "generate", {"model": "generate", **body})
    assert items == [{**event, FINAL: False} for event in events(functions, "generate", body)]
    assert [item["output"] for item in items] == ["hi0 ", "hi1 ", "hi2 "]
    assert last == {FINAL: True, "model_name": "generate", "model_version": "", **named}


def test_single_response_is_final(functions: Running) -> None:
    (event,) = events(functions, "add", {"a": 41})
    assert asked(functions, "add", {"a": 41}) == [{**event, FINAL: True}]
    assert event["output"] == 42
    arguments = {"parameters": {"a": 1, "b": 2}}
    assert asked(functions, "add", {**arguments, "model": "add"})[0]["output"] == 3


def test_both_formats_share_a_connection(functions: Running) -> None:
    a = {"name": "a", "datatype": "INT64", "shape": [1], "data": [1]}
    flat, v2, again = asked(functions, "add", {"a": 1, "id": "1"}, {"id": "2", "inputs": [a]}, {"a": 2})
    assert (flat["output"], flat["id"]) == (2, "1")
    assert (v2["outputs"][0]["data"], v2["id"]) == ([2], "2")
    assert again["output"] == 3
    assert "id" not in again


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"a": "x", "id": "1"}, "argument \"a\" takes an integer, got 'x'"),
        ({"c": 1}, '"c" is no argument of the model; it takes a, b (optional)'),
        ({"model": "generate", "a": 1}, '"model" names another model than this connection, which is "add"'),
        ({"id": "1"}, '"inputs" is missing'),
    ],
)
def test_invalid_message_is_an_error_with_its_id(functions: Running, message: dict, error: str) -> None:
    wrong, right = asked(functions, "add", message, {"a": 1})
    assert (wrong["error"], wrong.get("id")) == (error, message.get("id"))
    assert right["output"] == 2


def test_class_accepts_flat_json(start: Any, tmp_path: Any) -> None:
    root = tmp_path / "models"
    write_model(root, "shapes", "shapes.Shapes", COLUMNS, name="shapes")
    server = start(root)
    body = {"x": [[1, 2], [3, 4]], "text": "a", "k": 1.5}
    (event,) = events(server, "shapes", body)
    assert event["seen"] == ["x INT64 [2, 2]", "text BYTES [1]", "k FP64 [1]"]
    assert asked(server, "shapes", {**body, "model": "shapes"}) == [{**event, FINAL: True}]
    ragged = asked(server, "shapes", {"x": [[1], [2, 3]]})
    assert ragged[0]["error"] == 'input "x" is ragged: x[1] is a list of 2, and x[0] is a list of 1'
