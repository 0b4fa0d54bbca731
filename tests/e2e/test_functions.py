"""Functions as models over every face, in this process and in workers, of one front end and of two."""

import base64
import json
import os
import re
import shutil
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from httpx_sse import connect_sse
from websockets.sync.client import ClientConnection, connect

from inferstream import Client
from inferstream.protos.dataplane_pb2 import (
    ModelInferRequest,
    ModelInferResponse,
    ModelMetadataRequest,
)
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, tensor

HOSTS = {
    "in-process": {"target": "app:app", "workers": 0, "frontends": 1},
    "workers": {"target": None, "workers": 2, "frontends": 1},
    "front ends": {"target": "app:app", "workers": 0, "frontends": 2},
}
"""`server start app:app`, and `server start .../app.py`."""

STREAMS = ["generate", "spelled", "blocking", "returning"]
SAID = ["hi0 ", "hi1 ", "hi2 "]

EVERYTHING = {
    "text": "é\0🎈",
    "raw": base64.b64encode(b"\xff\x00").decode(),
    "number": 0.5,
    "flag": True,
    "when": "2024-02-29T12:00:00+00:00",
    "words": ["a", ""],
    "choice": "b",
    "color": "blue",
    "point": {"x": 3},
    "free": {"deep": [1, {"er": None}]},
}
RETURNED = {**EVERYTHING, "raw": "ff00", "color": "BLUE", "point": [3, 0.5], "count": None}


def write_app(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("function_app.py"), folder / "app.py")
    return folder


@contextmanager
def running(folder: Path, target: str | None, workers: int, frontends: int = 1) -> Iterator[Running]:
    write_app(folder)
    server = Running(
        folder / "app.py",
        target=target,
        INFERSTREAM_PARALLEL_WORKERS=str(workers),
        INFERSTREAM_FRONTENDS=str(frontends),
    )
    try:
        yield server
    finally:
        assert server.stop() == 0, server.text()


@pytest.fixture(scope="module", params=HOSTS)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("functions") / "code", **HOSTS[request.param]) as server:
        yield server


def generate(served: Running, model: str, arguments: dict, **options: Any) -> httpx.Response:
    return served.infer(model, arguments, "generate", **options)


def sse(served: Running, model: str, arguments: dict, **options: Any) -> list[Any]:
    """The values of a stream of flat objects; the message of an error."""
    url = f"{served.url}/v2/models/{model}/generate_stream"
    with (
        httpx.Client(timeout=20) as client,
        connect_sse(client, "POST", url, json=arguments, **options) as source,
    ):
        if source.response.status_code != 200:
            return [source.response.status_code, json.loads(source.response.read())["error"]]
        events = [json.loads(event.data) for event in source.iter_sse()]
    return [event.get("output", event.get("error")) for event in events]


def inputs(**values: Any) -> list[dict]:
    kinds = {bool: "BOOL", int: "INT64", float: "FP64", str: "BYTES"}
    return [tensor(name, kinds[type(value)], [value]) for name, value in values.items()]


def message(model: str, **values: Any) -> ModelInferRequest:
    request = ModelInferRequest(model_name=model)
    for name, value in values.items():
        if isinstance(value, str | bytes):
            data, datatype = value.encode() if isinstance(value, str) else value, "BYTES"
            request.inputs.add(name=name, datatype=datatype, shape=[1]).contents.bytes_contents.append(data)
        elif isinstance(value, float):
            request.inputs.add(name=name, datatype="FP64", shape=[1]).contents.fp64_contents.append(value)
        else:
            request.inputs.add(name=name, datatype="INT64", shape=[1]).contents.int64_contents.append(value)
    return request


def value_in(response: ModelInferResponse) -> Any:
    [output] = response.outputs
    if response.raw_output_contents:
        raw = response.raw_output_contents[0]
        return (
            raw[4:]
            if output.datatype == "BYTES"
            else struct.unpack("<q" if output.datatype == "INT64" else "<d", raw)[0]
        )
    contents = output.contents
    return (*contents.bytes_contents, *contents.int64_contents, *contents.fp64_contents)[0]


@contextmanager
def rpc(served: Running) -> Iterator[GRPCInferenceServiceStub]:
    with grpc.insecure_channel(served.grpc) as channel:
        yield GRPCInferenceServiceStub(channel)


def test_flat_json_supports_every_type(served: Running) -> None:
    answered = generate(served, "everything", EVERYTHING)
    assert answered.status_code == 200, answered.text
    assert answered.json()["output"] == RETURNED
    assert generate(served, "add", {"a": 2}).json()["output"] == 3
    assert generate(served, "add", {"a": 2, "b": 2}).json()["output"] == 4


def test_null_is_not_an_absent_argument(served: Running) -> None:
    names = ("number", "text", "point", "free")
    defaults, nulls = ["5", "'text'", "Point(x=1, y=0.5)", "3"], ["None"] * 4
    assert generate(served, "nullable", {}).json()["output"] == defaults
    assert generate(served, "nullable", {"text": None}).json()["output"] == [
        defaults[0],
        "None",
        *defaults[2:],
    ]
    assert generate(served, "nullable", dict.fromkeys(names)).json()["output"] == nulls
    assert sse(served, "nullable", dict.fromkeys(names)) == [nulls]
    given = [tensor(name, "INT64" if name == "number" else "BYTES", [None]) for name in names]
    assert served.infer("nullable", {"inputs": given}).json()["outputs"][0]["data"] == nulls
    asked = {"jsonrpc": "2.0", "id": 1, "method": "nullable", "params": dict.fromkeys(names)}
    assert httpx.post(f"{served.url}/jsonrpc", json=asked, timeout=20).json()["result"] == nulls
    with Client(served.url) as client:
        assert client.predict("nullable", **dict.fromkeys(names)) == nulls
    with Client(f"grpc://{served.grpc}") as client:
        assert client.predict("nullable", text="text") == defaults
        with pytest.raises(TypeError, match='argument "text": gRPC has no null; ask over http'):
            client.predict("nullable", text=None)
    inputs = httpx.get(f"{served.url}/v2/models/nullable").json()["inputs"]
    assert [each["parameters"]["nullable"] for each in inputs] == [True] * 4


def test_v2_supports_json_and_binary(served: Running) -> None:
    answered = served.infer("add", {"inputs": inputs(a=2, b=40), "id": "mine"}).json()
    assert answered["outputs"] == [tensor("output", "INT64", [42])]
    assert (answered["id"], answered["model_name"]) == ("mine", "add")
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    client = triton_http.InferenceServerClient(f"127.0.0.1:{served.http_port}")
    for binary in (True, False):
        given = [triton_http.InferInput("x", [2, 2], "FP32"), triton_http.InferInput("w", [2], "FP32")]
        given[0].set_data_from_numpy(x, binary_data=binary)
        given[1].set_data_from_numpy(np.array([1, 10], np.float32), binary_data=binary)
        wanted = [triton_http.InferRequestedOutput("output", binary_data=binary)]
        found = client.infer("scaled", given, outputs=wanted).as_numpy("output")
        assert found.tolist() == [[0, 1], [20, 30]]
    client.close()


def test_grpc_supports_values(served: Running) -> None:
    with rpc(served) as stub:
        assert value_in(stub.ModelInfer(message("add", a=2, b=3))) == 5
        metadata = stub.ModelMetadata(ModelMetadataRequest(name="add"))
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [
        ("a", "INT64", [1]),
        ("b", "INT64", [1]),
    ]
    client = triton_grpc.InferenceServerClient(served.grpc)
    given = triton_grpc.InferInput("xs", [3], "INT64")
    given.set_data_from_numpy(np.array([2, 4, 6]))
    assert client.infer("halves", [given]).as_numpy("output").tolist() == [1, 2, 3]
    client.close()


def test_metadata_comes_from_annotations(served: Running) -> None:
    found = httpx.get(f"{served.url}/v2/models/everything").json()
    by_name = {t["name"]: t for t in found["inputs"]}
    assert by_name["count"]["parameters"] == {"optional": True, "default": "null"}
    assert by_name["choice"]["parameters"]["choices"] == '["a","b"]'
    assert json.loads(by_name["point"]["parameters"]["schema"])["required"] == ["x"]
    assert by_name["words"]["shape"] == [-1]
    [output] = found["outputs"]
    assert (output["name"], output["datatype"], output["parameters"]["content_type"]) == (
        "output",
        "BYTES",
        "json",
    )


@pytest.mark.parametrize("model", STREAMS)
def test_every_stream_kind_over_every_transport(served: Running, model: str) -> None:
    assert sse(served, model, {"prompt": "hi"}) == SAID
    assert sse(served, model, {"prompt": "hi", "max_tokens": 1}) == SAID[:1]
    assert sse(served, model, {"prompt": "hi", "max_tokens": 0}) == []
    with rpc(served) as stub:
        request = message(model, prompt="hi")
        assert [value_in(r) for r in stub.ModelStreamInfer(iter([request]))] == [s.encode() for s in SAID]
    with connect(f"ws://127.0.0.1:{served.http_port}/v2/models/{model}/stream") as socket:
        socket.send(json.dumps({"id": "x", "inputs": inputs(prompt="hi")}))
        assert received(socket) == SAID
    completion = httpx.post(
        f"{served.url}/v1/completions", json={"model": model, "prompt": "hi", "max_tokens": 2}, timeout=20
    )
    assert completion.json()["choices"][0]["text"] == "hi0 hi1 ", completion.text
    tgi = httpx.post(
        f"{served.url}/v2/models/{model}/generate",
        json={"prompt": "hi", "max_tokens": 1},
        timeout=20,
    )
    assert (tgi.status_code, "generate_stream" in tgi.json()["error"]) == (501, True)


def test_function_returning_value_is_stream_of_one_item(served: Running) -> None:
    assert sse(served, "add", {"a": 1}) == [2]
    assert sse(served, "scaled", {"x": [[1, 2]], "w": [3]}) == [[[3, 6]]]
    assert sse(served, "everything", EVERYTHING) == [RETURNED]
    with rpc(served) as stub:
        assert [value_in(r) for r in stub.ModelStreamInfer(iter([message("add", a=1)]))] == [2]
    with connect(f"ws://127.0.0.1:{served.http_port}/v2/models/add/stream") as socket:
        socket.send(json.dumps({"id": "x", "inputs": inputs(a=1)}))
        assert json.loads(socket.recv(10))["outputs"][0]["data"] == [2]


def test_chat_and_tgi_call_text_functions(served: Running) -> None:
    chat = {
        "model": "generate",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 2,
        "stream": True,
    }
    url = f"{served.url}/v1/chat/completions"
    with httpx.Client(timeout=20) as client, connect_sse(client, "POST", url, json=chat) as source:
        events = [event.data for event in source.iter_sse()]
    assert events[-1] == "[DONE]"
    pieces = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1]]
    assert "".join(pieces).count("0 ") == 1
    assert "".join(pieces).endswith("1 ")


def test_the_client_streams_over_grpc_and_websocket(served: Running) -> None:
    for model, expected in {
        "running": [101, 103, 106],
        "blocking_running": [101, 103, 106],
        "total": [106],
        "blocking_total": [106],
    }.items():
        requests = [message(model, xs=1, start=100), message(model, xs=2), message(model, xs=3)]
        with rpc(served) as stub:
            metadata = (("x-stream-dialect", "mlserver"),)
            found = [
                value_in(r) for r in stub.ModelStreamInfer(iter(requests), metadata=metadata, timeout=20)
            ]
        assert found == expected, model
        assert socket_talk(served, model) == expected, model
        assert generate(served, model, {"xs": 5, "start": 1}).json()["output"] == 6
        asked = {"jsonrpc": "2.0", "id": 1, "method": model, "params": {"xs": 5, "start": 1}}
        result = httpx.post(f"{served.url}/jsonrpc", json=asked, timeout=20).json()["result"]
        single = model.endswith("total")
        assert result == (6 if single else [6])
        assert re.search(
            rf"^{model} +{'predict' if single else 'stream'} +[\d.]+ s +ready", served.text(), re.M
        )


def socket_talk(served: Running, model: str) -> list[int]:
    with connect(f"ws://127.0.0.1:{served.http_port}/v2/models/{model}/stream") as socket:
        socket.send(json.dumps({"id": "c", "inputs": inputs(xs=1, start=100), "part": "first"}))
        socket.send(json.dumps({"id": "c", "inputs": inputs(xs=2), "part": "next"}))
        socket.send(json.dumps({"id": "c", "inputs": inputs(xs=3), "part": "last"}))
        return received(socket)


def received(socket: ClientConnection) -> list[Any]:
    found = []
    while (item := json.loads(socket.recv(10)))["outputs"]:
        found.append(item["outputs"][0]["data"][0])
    assert item["parameters"]["triton_final_response"]
    return found


def test_later_invalid_argument_ends_stream_with_its_name(served: Running) -> None:
    requests = [message("running", xs=1), message("running", xs=b"no number")]
    with rpc(served) as stub:
        metadata = (("x-stream-dialect", "mlserver"),)
        responses = stub.ModelStreamInfer(iter(requests), metadata=metadata, timeout=20)
        assert value_in(next(responses)) == 1
        with pytest.raises(grpc.RpcError) as caught:
            next(responses)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert 'argument "xs" takes INT64, got BYTES' in caught.value.details()


def test_headers_context_state_and_dependencies(served: Running) -> None:
    headers = {"x-user": "ada", "x-other": "!"}
    assert generate(served, "greeted", {}, headers=headers).json()["output"] == "hello ada, ada"
    assert sse(served, "greeting", {}, headers=headers) == ["hello ada", "ada!"]
    with rpc(served) as stub:
        found = stub.ModelInfer(message("greeted"), metadata=(("x-user", "eve"),))
        assert value_in(found) == b"hello eve, eve"


def test_versions_are_routed(served: Running) -> None:
    def ask(path: str) -> str:
        return httpx.post(f"{served.url}/v2/models/versioned{path}/generate", json={"a": 1}).json()["output"]

    assert ask("/versions/2") == "two 1"
    assert ask("/versions/10") == "ten 1"
    assert ask("") == "ten 1"
    with rpc(served) as stub:
        request = message("versioned", a=1)
        request.model_version = "2"
        assert value_in(stub.ModelInfer(request)) == b"two 1"


def test_batch_items_fail_alone(served: Running) -> None:
    with ThreadPoolExecutor(12) as pool:
        found = [*pool.map(lambda x: generate(served, "halves", {"xs": [x]}), range(12))]
    assert [each.status_code for each in found] == [200, 422] * 6
    assert [each.json()["output"] for each in found[::2]] == [[x / 2] for x in range(0, 12, 2)]
    assert found[3].json()["error"] == "3 is odd"


def test_steps_admit_and_release_each_stream(served: Running) -> None:
    assert sse(served, "counting", {"name": "a"}) == ["a2", "a1", "a0"]
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda name: sse(served, "counting", {"name": name, "n": 5}), "bcde")]
    assert found == [[f"{name}{left}" for left in (4, 3, 2, 1, 0)] for name in "bcde"]
    eventually(lambda: all(served.noted(f"release {name}") for name in "abcde"))
    status, error = sse(served, "counting", {"name": "f", "n": 1001})
    assert (status, 'argument "n"' in error) == (400, True)
    assert not served.noted("admit f")


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("add", {}, 'argument "a" is missing; it takes a, b (optional)'),
        ("add", {"a": 1, "c": 2}, '"c" is no argument of the model; it takes a, b (optional)'),
        ("add", {"a": "1"}, 'argument "a" takes an integer'),
        ("add", {"a": 1.5}, 'argument "a" takes an integer'),
        ("add", {"a": None}, 'argument "a" must not be null'),
        ("add", {"a": 2**63}, 'argument "a": 9223372036854775808 is out of range for INT64'),
        ("add", {"a": 2**64}, 'argument "a": an integer beyond 64 bits is out of range for INT64'),
        ("add", {"a": -(2**63) - 1}, 'argument "a": an integer beyond 64 bits is out of range for INT64'),
        ("halves", {"xs": [2, 10**30]}, 'argument "xs": element 1 an integer beyond 64 bits'),
        ("add", {"a": [1]}, 'argument "a" takes an integer'),
        ("everything", {**EVERYTHING, "raw": "?"}, 'argument "raw": not valid base64'),
        ("everything", {**EVERYTHING, "number": -1}, 'argument "number"'),
        ("everything", {**EVERYTHING, "when": "noon"}, 'argument "when": not an ISO 8601'),
        ("everything", {**EVERYTHING, "words": ["a", 1]}, 'argument "words": element 1 takes text'),
        ("everything", {**EVERYTHING, "choice": "c"}, 'argument "choice"'),
        ("everything", {**EVERYTHING, "color": "green"}, 'argument "color"'),
        ("everything", {**EVERYTHING, "point": {"y": 1}}, 'argument "point": field "x": field required'),
        ("everything", {**EVERYTHING, "free": []}, 'argument "free"'),
        ("scaled", {"x": [[1, 2]], "w": [1, 2]}, 'dimension "n" is 2, and 1 in argument "x"'),
        ("scaled", {"x": [[1]], "w": [1]}, 'argument "x" takes shape [n, 2], got [1, 1]'),
    ],
)
def test_wrong_arguments_are_named_in_flat_json(
    served: Running, model: str, arguments: dict, message: str
) -> None:
    answered = generate(served, model, arguments)
    assert answered.status_code == 400
    assert message in answered.json()["error"]


def test_wrong_arguments_are_named_in_v2_and_grpc(served: Running) -> None:
    for given, message_wanted in [
        ({}, 'argument "a" is missing'),
        ({"a": 1, "c": 2}, '"c" is no argument'),
        ({"a": "x"}, 'argument "a" takes INT64, got BYTES'),
        ({"a": 0.5}, 'argument "a" takes INT64, got FP64'),
    ]:
        answered = served.infer("add", {"inputs": inputs(**given)})
        assert (answered.status_code, message_wanted in answered.json()["error"]) == (400, True), (
            answered.text
        )
        with rpc(served) as stub, pytest.raises(grpc.RpcError) as caught:
            stub.ModelInfer(message("add", **given))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert message_wanted in caught.value.details()


def test_flat_json_at_infer_names_correct_routes(served: Running) -> None:
    for action in ("infer", "infer_stream"):
        answered = served.infer("add", {"a": 1}, action)
        assert answered.status_code == 400
        assert answered.json()["error"] == (
            '"inputs" is missing; inputs by name, as "a", are for /generate and /generate_stream'
        )
        assert served.infer("add", {"id": "x"}, action).json()["error"] == '"inputs" is missing'
        assert served.infer("add", {"instances": [1]}, action).json()["error"] == (
            '"inputs" is missing; "instances" are for /v1/models/MODEL:predict and /invocations'
        )


def test_errors_of_functions(served: Running) -> None:
    told = generate(served, "wrong", {"kind": "refuses"})
    assert (told.status_code, told.json()["error"]) == (409, "told")
    for kind in ("raises", "returns"):
        failed = generate(served, "wrong", {"kind": kind})
        assert failed.status_code == 500
        assert kind == "returns" or "secret" not in failed.text
    assert sse(served, "failing_later", {"n": 2}) == ["0", "1", "told later"]


def test_health_works_while_functions_block(served: Running) -> None:
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(sse, served, "dozing", {"seconds": 3})
        answered = 0
        while not call.done():
            assert httpx.get(f"{served.url}/v2/health/live", timeout=2.5).status_code == 200
            answered += 1
        assert answered > 3
        assert call.result()[1:] == ["0"]


def test_async_functions_run_on_event_loop(served: Running) -> None:
    assert generate(served, "on_loop", {}).json()["output"] == "MainThread"
    assert sse(served, "dozing", {"seconds": 0.0, "n": 0}) != ["MainThread"]


@pytest.mark.parametrize(
    "model", ["endless", "endless_blocking", "endless_sleepy", "endless_returned", "endless_needing"]
)
def test_disconnect_ends_generator(served: Running, model: str) -> None:
    name = f"{model}-{served.http_port}"
    url = f"{served.url}/v2/models/{model}/generate_stream"
    with httpx.Client(timeout=20) as client, connect_sse(client, "POST", url, json={"name": name}) as source:
        assert json.loads(next(source.iter_sse()).data)["output"] == name
    eventually(lambda: served.noted(f"left {name}"))
    assert served.log.read_text().splitlines().count(f"left {name}") == 1


def test_long_byte_stream_uses_bounded_memory(served: Running) -> None:
    """64 MB in pieces of 64 KB over gRPC."""
    size, count = 65_536, 1024
    with rpc(served) as stub:
        warm = [*stub.ModelStreamInfer(iter([message("blobs", size=size, count=64)]), timeout=30)]
        assert len(warm) == 64
        before = served.rss()
        responses = stub.ModelStreamInfer(iter([message("blobs", size=size, count=count)]), timeout=120)
        received = 0
        for index, response in enumerate(responses):
            data = value_in(response)
            assert data[:1] == bytes([index % 256])
            received += len(data)
    assert received == size * count
    assert served.rss() - before < 24 * 2**20


def test_hooks_run_once_per_process(tmp_path: Path, workers: int) -> None:
    with running(tmp_path / "code", None, workers) as server:
        assert generate(server, "greeted", {}).status_code == 200
        processes = [str(server.process.pid)] if not workers else []
        loads = [line for line in server.log.read_text().splitlines() if line.startswith("loads")]
        assert len(loads) == (workers or 1)
        assert len({*loads}) == len(loads)
        assert not processes or loads == [f"loads {processes[0]}"]
    ended = server.log.read_text().splitlines()
    assert sorted(line for line in ended if line.startswith("unloads")) == sorted(
        f"un{line}" for line in loads
    )
    assert os.path.exists(server.log)
