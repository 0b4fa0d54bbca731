"""Requests that are cancelled by their id, whatever they came over and whichever front end is asked."""

import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import grpc
import httpx
import pytest
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.protos.requests_pb2 import CancelRequest, CancelResponse
from tests.serving import Running, eventually

APP = Path(__file__).parents[1] / "held_app.py"
HOSTS = {
    "in-process": {},
    "workers": {"parallel_workers": 2},
    "front-ends": {"frontends": 3},
}
keys = count(1)


@pytest.fixture(scope="module", params=HOSTS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("cancelling") / "app"
    folder.mkdir()
    shutil.copy(APP, folder / "app.py")
    (folder / "settings.json").write_text(json.dumps(HOSTS[request.param]))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def cancel_by_rest(server: Running, id: str, **headers: str) -> int:
    found = httpx.delete(f"{server.url}/v2/requests/{id}", headers=headers)
    if found.status_code == 404:
        assert found.json() == {"error": f'no request with the id "{id}" is in progress'}
        return 0
    assert found.json()["id"] == id
    return found.json()["cancelled"]


def cancel_by_grpc(server: Running, id: str, **headers: str) -> int:
    with grpc.insecure_channel(server.grpc) as channel:
        cancel = channel.unary_unary(
            "/inferstream.control.Requests/Cancel", CancelRequest.SerializeToString, CancelResponse.FromString
        )
        try:
            return cancel(CancelRequest(id=id), metadata=tuple(headers.items()), timeout=20).cancelled
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return 0


CANCELS = {"rest": cancel_by_rest, "grpc": cancel_by_grpc}


def v2(key: str, until: int | None = 10**6) -> dict:
    inputs = [{"name": "key", "datatype": "BYTES", "shape": [1], "data": [key]}]
    if until is not None:
        inputs.append({"name": "until", "datatype": "INT64", "shape": [1], "data": [until]})
        inputs.append({"name": "pause", "datatype": "FP64", "shape": [1], "data": [0.01]})
    return {"id": key, "inputs": inputs}


def over_infer(server: Running, key: str) -> str:
    found = httpx.post(f"{server.url}/v2/models/slow/infer", json=v2(key, None), timeout=30)
    assert found.status_code == 499
    return found.json()["error"]


def over_events(server: Running, key: str) -> str:
    found = httpx.post(f"{server.url}/v2/models/count/infer_stream", json=v2(key), timeout=30)
    if found.status_code == 499:  # before the first response
        return found.json()["error"]
    *_, last = found.text.strip().split("\n\n")
    assert last.startswith("event: error\ndata: ")
    event = json.loads(last.partition("data: ")[2])
    assert (event["code"], event["id"]) == ("cancelled", key)
    return event["error"]


def over_websocket(server: Running, key: str) -> str:
    with connect(f"ws://127.0.0.1:{server.http_port}/v2/models/count/stream") as socket:
        socket.send(json.dumps(v2(key)))
        for message in socket:
            if "error" in (found := json.loads(message)):
                return found["error"]
    raise AssertionError


def over_grpc(server: Running, key: str) -> str:
    request = ModelInferRequest(model_name="count", id=key)
    for name, datatype in (("key", "BYTES"), ("until", "INT64"), ("pause", "FP64")):
        tensor = request.inputs.add(name=name, datatype=datatype, shape=[1])
        if name == "key":
            tensor.contents.bytes_contents.append(key.encode())
        elif name == "until":
            tensor.contents.int64_contents.append(10**6)
        else:
            tensor.contents.fp64_contents.append(0.01)
    with grpc.insecure_channel(server.grpc) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            for _ in GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=30):
                pass
    assert caught.value.code() is grpc.StatusCode.CANCELLED
    return caught.value.details()


FACES = {"infer": over_infer, "events": over_events, "websocket": over_websocket, "grpc": over_grpc}


@pytest.mark.parametrize("by", CANCELS)
@pytest.mark.parametrize("face", FACES)
def test_cancelled_request_ends_model(server: Running, face: str, by: str) -> None:
    key = f"{face}/{by} {next(keys)}"
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(FACES[face], server, key)
        eventually(lambda: server.noted(f"begun {key}") or asking.done())
        assert CANCELS[by](server, key) == 1
        eventually(lambda: server.noted(f"finished {key}"))
        assert asking.result(20) == "The client cancelled the request."
    assert CANCELS[by](server, key) == 0


@pytest.mark.parametrize("by", CANCELS)
def test_cancel_ends_all_requests_with_id_and_no_others(server: Running, by: str) -> None:
    same, other = f"same-{next(keys)}", f"other-{next(keys)}"
    with ThreadPoolExecutor(9) as pool:
        asking = [pool.submit(over_events, server, same) for _ in range(8)]
        left = pool.submit(over_events, server, other)

        def begun(key: str) -> int:
            return server.log.read_text().splitlines().count(f"begun {key}")

        eventually(lambda: begun(same) == 8 and begun(other) == 1)
        assert CANCELS[by](server, same) == 8
        assert [each.result(20) for each in asking] == ["The client cancelled the request."] * 8
        assert not left.done()
        assert CANCELS[by](server, other) == 1
        left.result(20)


def test_only_same_credentials_cancel_a_request(server: Running) -> None:
    key = f"owned-{next(keys)}"

    def ask() -> int:
        headers = {"authorization": "Bearer mine"}
        return httpx.post(
            f"{server.url}/v2/models/slow/infer", json=v2(key, None), headers=headers, timeout=30
        ).status_code

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        eventually(lambda: server.noted(f"begun {key}"))
        for cancel in CANCELS.values():
            assert cancel(server, key) == 0
            assert cancel(server, key, authorization="Bearer other") == 0
        assert cancel_by_grpc(server, key, authorization="Bearer mine") == 1
        assert asking.result(20) == 499


def test_stream_with_stalled_reader_is_cancelled(server: Running) -> None:
    """Its model waits in a `yield`, and nobody takes a step."""
    key = f"unread-{next(keys)}"
    with httpx.stream(
        "POST",
        f"{server.url}/v2/models/blocking/generate_stream",
        json={"key": key, "until": 10**6, "id": key},
    ):

        def made() -> int:
            return sum(line.startswith(f"made {key}") for line in server.log.read_text().splitlines())

        def steady() -> bool:
            before = made()
            time.sleep(0.2)
            return 0 < before == made()

        eventually(steady, 20)
        assert cancel_by_rest(server, key) == 1
        eventually(lambda: server.noted(f"finished {key}"))


def test_unread_stream_is_cancelled(server: Running) -> None:
    key = f"held-{next(keys)}"
    url = f"{server.url}/v2/models/count/generate_stream"
    body = {"key": key, "until": 10**6, "pause": 0.01, "id": key}
    with httpx.stream("POST", url, json=body, headers={"prefer": "resumable"}) as stream:
        next(stream.iter_lines())
    assert not server.noted(f"finished {key}")
    assert cancel_by_rest(server, key) == 1
    eventually(lambda: server.noted(f"finished {key}"))


def test_foreign_origin_cancels_nothing(server: Running) -> None:
    for headers in ({"origin": "http://foreign"}, {"host": "foreign"}):
        found = httpx.delete(f"{server.url}/v2/requests/1", headers=headers)
        assert found.status_code == 403


def test_reflection_describes_the_service(server: Running) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert "inferstream.control.Requests" in database.get_services()
        file = database.FindFileContainingSymbol("inferstream.control.Requests")
        assert [method.name for method in file.service[0].method] == ["Cancel"]
