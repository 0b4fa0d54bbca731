"""Streams are the same whatever else is switched on."""

import gzip
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import grpc
import httpx
import pytest
from httpx_sse import connect_sse
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, text, write_model

SETTINGS = [
    {"parallel_workers": workers, "gzip_enabled": zipped, "metrics_endpoint": metrics}
    for workers, zipped, metrics in product([0, 2], [False, True], [None, "/metrics"])
]


def _name(settings: dict) -> str:
    return "-".join(
        (
            f"workers{settings['parallel_workers']}",
            "gzip" if settings["gzip_enabled"] else "plain",
            "metrics" if settings["metrics_endpoint"] else "silent",
        )
    )


@pytest.fixture(scope="module", params=SETTINGS, ids=_name)
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("matrix") / "models"
    write_model(folder, "streaming", "faulty_models.Streaming")
    write_model(folder, "echo", "faulty_models.Echo")
    (folder / "settings.json").write_text(json.dumps(request.param))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def _sse(server: Running, name: str, parameters: dict) -> Iterator[dict]:
    with httpx.Client(timeout=10, headers={"Accept-Encoding": "gzip"}) as client:
        url = f"{server.url}/v2/models/streaming/generate_stream"
        body = gzip.compress(json.dumps(text(id=name, parameters=parameters)).encode())
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        with connect_sse(client, "POST", url, content=body, headers=headers) as source:
            for event in source.iter_sse():
                item = json.loads(event.data)
                if event.event == "error":
                    yield {"id": item["id"], "said": item["code"]}
                else:
                    yield {"id": item["id"], "said": item["outputs"][0]["data"][0]}


def _ws(server: Running, name: str, parameters: dict) -> Iterator[dict]:
    with connect(f"{server.url.replace('http', 'ws', 1)}/v2/models/streaming/stream") as socket:
        socket.send(json.dumps(text(id=name, parameters=parameters)))
        for message in socket:
            item = json.loads(message)
            if "error" in item:
                yield {"id": item["id"], "said": item["code"]}
                return
            if item["parameters"]["triton_final_response"]:
                return
            yield {"id": item["id"], "said": item["outputs"][0]["data"][0]}


def _grpc(server: Running, name: str, parameters: dict) -> Iterator[dict]:
    message = ModelInferRequest(model_name="streaming", id=name)
    for key, value in parameters.items():
        kind = "double_param" if isinstance(value, float) else "int64_param"
        setattr(message.parameters[key], kind, value)
    with grpc.insecure_channel(server.grpc, compression=grpc.Compression.Gzip) as channel:
        call = GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([message]))
        try:
            for item in call:
                yield {"id": item.id, "said": item.outputs[0].contents.bytes_contents[0].decode()}
        except grpc.RpcError as error:
            yield {"id": name, "said": error.code().name.lower()}
        finally:
            call.cancel()


TRANSPORTS = pytest.mark.parametrize("stream", [_sse, _ws, _grpc], ids=["sse", "ws", "grpc"])


@TRANSPORTS
def test_items_arrive_in_order_and_immediately(matrix: Running, stream) -> None:
    items = stream(matrix, f"all{stream.__name__}", {"items": 40, "delay": 0.01})
    assert next(items)["said"] == "item 0"
    assert not matrix.noted(f"finally all{stream.__name__}"), "the first item waited for the last"
    assert [item["said"] for item in items] == [f"item {i}" for i in range(1, 40)]


@TRANSPORTS
def test_failure_follows_earlier_items(matrix: Running, stream) -> None:
    items = list(stream(matrix, "failed", {"items": 5, "fail_at": 3}))
    assert [item["said"] for item in items] == ["item 0", "item 1", "item 2", "internal"]
    assert {item["id"] for item in items} == {"failed"}


@TRANSPORTS
def test_disconnect_ends_model(matrix: Running, stream) -> None:
    name = f"left{stream.__name__}"
    items = stream(matrix, name, {"items": 10**6, "delay": 0.01})
    next(items)
    items.close()
    eventually(lambda: matrix.noted(f"finally {name}"))
    matrix.probe()
