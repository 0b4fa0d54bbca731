"""The WebSocket door, with the client everybody uses."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import numpy as np
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.serving import Running, eventually, fp32, is_ready, tensor, text, write_model


@contextmanager
def talk(server: Running, model: str, **options) -> Iterator[ClientConnection]:
    url = f"{server.url.replace('http', 'ws', 1)}/v2/models/{model}/stream"
    with connect(url, open_timeout=20, close_timeout=5, **options) as socket:
        yield socket


def send(socket: ClientConnection, request: dict) -> None:
    socket.send(json.dumps(request))


def receive(socket: ClientConnection) -> dict:
    return json.loads(socket.recv(timeout=10))


def final(answer: dict) -> bool:
    return "error" in answer or answer["parameters"]["triton_final_response"]


def answers(socket: ClientConnection) -> Iterator[dict]:
    """Up to and with the last one."""
    while True:
        answer = receive(socket)
        yield answer
        if final(answer):
            return


def said(answer: dict) -> str:
    return answer["outputs"][0]["data"][0]


def binary(document: dict, *blobs: bytes) -> bytes:
    body = json.dumps(document).encode()
    return b"".join((len(body).to_bytes(4, "little"), body, *blobs))


def test_multi_message_conversation(server: Running) -> None:
    with talk(server, "streaming") as socket:
        for name in ("one", "two"):
            send(socket, text(id=name, parameters={"items": 3}))
            *items, last = answers(socket)
            assert [said(item) for item in items] == ["item 0", "item 1", "item 2"]
            assert {item["id"] for item in [*items, last]} == {name}
            assert not any(map(final, items))
            assert last["outputs"] == []


def test_requests_share_websocket_and_interleave(server: Running) -> None:
    with talk(server, "streaming") as socket:
        for name in "abc":
            send(socket, text(id=name, parameters={"items": 5, "delay": 0.05}))
        found: dict[str, list[dict]] = {"a": [], "b": [], "c": []}
        order = []
        while not all(items and final(items[-1]) for items in found.values()):
            answer = receive(socket)
            found[answer["id"]].append(answer)
            order.append(answer["id"])

    for items in found.values():
        assert [said(item) for item in items[:-1]] == [f"item {i}" for i in range(5)]
    assert order != sorted(order), "one stream waited for another"


def test_single_response_is_final(server: Running) -> None:
    with talk(server, "echo") as socket:
        send(socket, fp32([1.0, 2.0], id="one"))
        [answer] = answers(socket)
    assert answer["outputs"][0]["data"] == [1.0, 2.0]
    assert answer["id"] == "one"


def test_request_without_id_gets_one(server: Running) -> None:
    with talk(server, "streaming") as socket:
        send(socket, text(parameters={"items": 2}))
        ids = {answer["id"] for answer in answers(socket)}
    assert len(ids) == 1
    assert ids.pop()


def test_binary_tensors_in_requests_and_responses(server: Running) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensors = [tensor("x", "FP32", None, [2, 3], parameters={"binary_data_size": array.nbytes})]
    del tensors[0]["data"]
    request = {"id": "b", "inputs": tensors, "parameters": {"binary_data_output": True}}
    with talk(server, "arrays") as socket:
        socket.send(binary(request, array.tobytes()))
        answer = socket.recv(timeout=10)

        send(socket, fp32([1.0], id="c"))
        assert receive(socket)["outputs"][0]["data"] == [1.0]

    length = int.from_bytes(answer[:4], "little")
    document = json.loads(answer[4 : 4 + length])
    assert document["parameters"]["triton_final_response"] is True
    assert document["outputs"][0]["parameters"]["binary_data_size"] == array.nbytes
    assert answer[4 + length :] == array.tobytes()


def test_multi_part_request_streams_responses(server: Running) -> None:
    with talk(server, "both") as socket:
        for part in ("first", "next", "last"):
            send(socket, text(id="duplex", part=part))
            assert said(receive(socket)) == "streamed duplex"
        assert final(receive(socket))


def test_empty_final_part(server: Running) -> None:
    with talk(server, "collecting") as socket:
        send(socket, text("hello", id="c", part="first"))
        send(socket, text("there", id="c", part="next"))
        send(socket, {"id": "c", "part": "last"})
        first, last = answers(socket)
    assert said(first) == "hello there"
    assert last["outputs"] == []


def test_predict_only_model_answers_every_part(server: Running) -> None:
    with talk(server, "echo") as socket:
        send(socket, fp32([1.0], id="p", part="first"))
        send(socket, fp32([2.0], id="p", part="last"))
        *items, _ = answers(socket)
    assert [item["outputs"][0]["data"] for item in items] == [[1.0], [2.0]]


def test_invalid_part_ends_only_its_request(server: Running) -> None:
    with talk(server, "both") as socket:
        send(socket, text(id="bad", part="first"))
        send(socket, text(id="good", part="first"))
        receive(socket), receive(socket)
        send(socket, {"id": "bad", "part": "next", "inputs": "none"})
        answer = receive(socket)
        assert (answer["id"], answer["code"]) == ("bad", "invalid")
        send(socket, text(id="good", part="last"))
        assert said(receive(socket)) == "streamed good"


def test_parts_of_finished_request_are_dropped(server: Running) -> None:
    with talk(server, "streaming") as socket:
        send(socket, text(id="over", part="first", parameters={"items": 1}))
        list(answers(socket))
        send(socket, text(id="over", part="next"))
        send(socket, {"id": "over", "part": "last"})
        send(socket, {"id": "over", "cancel": True})
        send(socket, text(id="after", parameters={"items": 0}))
        [answer] = answers(socket)
    assert answer["id"] == "after"


def test_cancel_ends_only_its_request(server: Running, workers: int) -> None:
    with talk(server, "streaming") as socket:
        send(socket, text(id=f"stops{workers}", parameters={"items": 10**6, "delay": 0.01}))
        send(socket, text(id="stays", parameters={"items": 10**6, "delay": 0.01}))
        while receive(socket)["id"] != f"stops{workers}":
            pass  # before its first response, nobody waits for a worker to clean up
        send(socket, {"id": f"stops{workers}", "cancel": True})
        while "error" not in (answer := receive(socket)):
            pass
        assert answer == {
            "id": f"stops{workers}",
            "error": "The client cancelled the request.",
            "code": "cancelled",
        }
        assert server.noted(f"finally stops{workers}")
        assert {receive(socket)["id"] for _ in range(5)} == {"stays"}


def test_running_id_cannot_be_reused(server: Running) -> None:
    with talk(server, "streaming") as socket:
        send(socket, text(id="taken", parameters={"items": 3, "delay": 0.2}))
        receive(socket)
        send(socket, text(id="taken"))
        refused = receive(socket)
        assert refused["code"] == "already_exists"
        assert "id" not in refused
        assert len(list(answers(socket))) == 3


def test_model_error_ends_only_its_request(server: Running) -> None:
    with talk(server, "streaming") as socket:
        send(socket, text(id="fails", parameters={"items": 5, "fail_at": 2}))
        *items, error = answers(socket)
        assert len(items) == 2
        assert (error["id"], error["code"]) == ("fails", "internal")
        assert "canary" not in error["error"]
        send(socket, text(id="next", parameters={"items": 0}))
        assert final(receive(socket))


def test_versions_and_names(server: Running) -> None:
    with talk(server, "versions/versions/2") as socket:
        send(socket, text(id="v"))
        assert receive(socket)["model_version"] == "2"
    with talk(server, "names/with%20space%20%C3%BC") as socket:
        send(socket, fp32([1.0]))
        assert receive(socket)["model_name"] == "names/with space ü"


@pytest.mark.parametrize("path", ["nobody/stream", "versions/versions/7/stream", "echo/other"])
def test_missing_model_is_404_before_upgrade(server: Running, path: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        with connect(f"{server.url.replace('http', 'ws', 1)}/v2/models/{path}"):
            pass
    assert refused.value.response.status_code == 404
    assert json.loads(refused.value.response.body)["error"]


def test_plain_request_gets_426(server: Running) -> None:
    answer = httpx.get(f"{server.url}/v2/models/echo/stream")
    assert answer.status_code == 426
    assert answer.headers["upgrade"] == "websocket"


def test_time_limit_applies_to_each_request(server: Running) -> None:
    with talk(server, "slow", additional_headers={"X-Request-Timeout": "0.3"}) as socket:
        for name in ("late", "later"):
            send(socket, text(id=name, parameters={"seconds": 9}))
            assert receive(socket)["code"] == "deadline_exceeded"
    with (
        pytest.raises(InvalidStatus, match="400"),
        talk(server, "slow", additional_headers={"X-Request-Timeout": "soon"}),
    ):
        pass


@pytest.mark.parametrize("compression", ["deflate", None])
def test_large_messages_with_and_without_compression(server: Running, compression: str | None) -> None:
    with talk(server, "echo", compression=compression) as socket:
        for size in (10, 1000, 100_000):
            send(socket, text("x" * size, id="large"))
            assert said(receive(socket)) == "x" * size


def test_websockets_are_counted(server: Running) -> None:
    def requests() -> float:
        path = "/v2/models/{model_name}/stream"
        return server.metric("rest_server_requests_total", method="GET", path=path, status_code="101")

    eventually(lambda: server.metric("inferstream_websockets") == 0)
    before = requests()
    sent = server.metric("inferstream_websocket_messages_sent_total")
    with talk(server, "streaming") as socket:
        send(socket, text(id="counted", parameters={"items": 3}))
        assert server.metric("inferstream_websockets") == 1
        list(answers(socket))
    eventually(lambda: requests() == before + 1)
    assert server.metric("inferstream_websocket_messages_sent_total") == sent + 4


def test_drain_finishes_running_refuses_new_and_closes(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "streaming", "faulty_models.Streaming")
    server = serve(folder)
    with talk(server, "streaming") as idle, talk(server, "streaming") as socket:
        send(socket, text(id="runs", parameters={"items": 20, "delay": 0.4}))
        receive(socket)
        server.process.terminate()
        # Not when the server says that it leaves: for one turn of its loop it still takes what comes.
        ready = f"{server.url}/v2/models/streaming/ready"
        eventually(lambda: not is_ready(ready))
        send(socket, text(id="new"))

        found = [json.loads(message) for message in socket]

        assert [said(item) for item in found if item["id"] == "runs" and not final(item)] == [
            f"item {i}" for i in range(1, 20)
        ]
        assert found[-1]["id"] == "runs"
        assert final(found[-1])
        assert [item["code"] for item in found if item["id"] == "new"] == ["draining"]
        assert list(idle) == []
        assert {socket.close_code, idle.close_code} == {1001}
    assert server.process.wait(30) == 0
