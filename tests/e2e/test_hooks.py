"""An app's middleware and errors over every face, in every process that has the ports."""

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import numpy as np
import openai
import pytest
import tritonclient.grpc as triton
from httpx_sse import connect_sse
from huggingface_hub import InferenceClient
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.frontends import clients, front_ends
from tests.serving import Running, eventually
from tests.typed import Reflected

APP = """
import os
from collections.abc import AsyncIterator, Iterator
from inferstream import App, Refused

app = App()

class Odd(ValueError): ...

app.error(ValueError, status=409)
app.error(Odd, status=418, message="odd")

def note(*words):
    with open(os.environ["TEST_LOG"], "a") as log:
        print(*words, file=log, flush=True)

@app.middleware
async def auth(call, call_next):
    key = call.headers.get("authorization", "").removeprefix("Bearer ")
    if not key:
        raise Refused("who are you?", status=401)
    if key == "mallory":
        raise Refused("not you")
    if key == "eager":
        raise Refused("slow down", status=429, retry_after=7)
    if key == "crash":
        raise RuntimeError("secret")
    call.principal = key
    return await call_next(call)

@app.middleware
async def watch(call, call_next):
    model, face, who = call.model, call.face, call.principal
    call.on_end(lambda end: note("ended", model, face, who, end.status, end.items, os.getpid()))
    return await call_next(call)

@app.model
def add(a: int, b: int = 1) -> int:
    if a < 0:
        raise Odd("secret") if a % 2 else ValueError("negative")
    return a + b

@app.model
async def count(n: int, fail: bool = False) -> AsyncIterator[int]:
    for i in range(n):
        yield i
    if fail:
        raise ValueError("after all")

@app.model
def blocking_count(n: int, fail: bool = False) -> Iterator[int]:
    yield from range(n)
    if fail:
        raise Odd("secret")

@app.model
async def words(prompt: str) -> AsyncIterator[str]:
    for word in prompt.split():
        yield word + " "
"""

ANN = {"authorization": "Bearer ann"}


@pytest.fixture(scope="module", params=[1, 2], ids=["one", "frontends"])
def frontends(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(scope="module")
def app(workers: int, frontends: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("hooks")
    (folder / "app.py").write_text(APP)
    settings = {"parallel_workers": workers, "frontends": frontends, "access_log": True}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder / "app.py")
    yield running
    assert running.stop() == 0, running.text()


def number(name: str, value: int | bool) -> dict:
    kind = "BOOL" if isinstance(value, bool) else "INT64"
    return {"name": name, "datatype": kind, "shape": [1], "data": [value]}


def request(**values: int | bool) -> dict:
    return {"inputs": [number(name, value) for name, value in values.items()]}


def message(model: str, **values: int | bool) -> ModelInferRequest:
    made = ModelInferRequest(model_name=model)
    for name, value in values.items():
        tensor = made.inputs.add(
            name=name, shape=[1], datatype="BOOL" if isinstance(value, bool) else "INT64"
        )
        contents = tensor.contents
        (contents.bool_contents if isinstance(value, bool) else contents.int64_contents).append(value)
    return made


def told(app: Running, *words: object) -> None:
    """The middleware of some process has seen the end of such a call."""
    line = " ".join(["ended", *map(str, words)])
    eventually(lambda: app.noted(line))


@pytest.fixture(scope="module")
def stub(app: Running) -> Iterator[GRPCInferenceServiceStub]:
    with grpc.insecure_channel(app.grpc) as channel:
        yield GRPCInferenceServiceStub(channel)


def test_rest_call_runs_hooks(app: Running) -> None:
    assert app.infer("add", request(a=1), headers=ANN).json()["outputs"][0]["data"] == [2]
    told(app, "add", "v2", "ann", "success", 1)
    refused = app.infer("add", {"inputs": []})
    assert (refused.status_code, refused.json()["error"]) == (401, "who are you?")
    refused = app.infer("add", request(a=1), headers={"authorization": "Bearer mallory"})
    assert (refused.status_code, refused.json()["error"]) == (403, "not you")
    crashed = app.infer("add", request(a=1), headers={"authorization": "Bearer crash"})
    assert crashed.status_code == 500
    assert "secret" not in crashed.text
    assert "RuntimeError: secret" in app.text()


def test_sse(app: Running) -> None:
    with httpx.Client(timeout=20) as client:
        url = f"{app.url}/v2/models/count/infer_stream"
        with connect_sse(client, "POST", url, json=request(n=3), headers={**ANN}) as events:
            assert len([*events.iter_sse()]) == 3
        told(app, "count", "v2", "ann", "success", 3)
        assert client.post(url, json=request(n=3)).status_code == 401
        flat = client.post(f"{app.url}/v2/models/add/generate", json={"a": 1}, headers=ANN)
        assert flat.status_code == 200
        told(app, "add", "triton", "ann", "success", 1)


def test_a_websocket(app: Running) -> None:
    url = f"{app.url.replace('http', 'ws')}/v2/models/count/stream"
    with connect(url, additional_headers=ANN) as line:
        line.send(json.dumps({"id": "1", **request(n=2)}))
        assert [len(json.loads(line.recv(10))["outputs"]) for _ in range(3)] == [1, 1, 0]
    told(app, "count", "websocket", "ann", "success", 2)
    with connect(url) as line:
        line.send(json.dumps({"id": "1", **request(n=2)}))
        refused = json.loads(line.recv(10))
    assert (refused["error"], refused["code"]) == ("who are you?", "unauthenticated")


def test_grpc(app: Running, stub: GRPCInferenceServiceStub) -> None:
    keys = [*ANN.items()]
    answer = stub.ModelInfer(message("add", a=1), metadata=keys, timeout=20)
    assert answer.outputs[0].contents.int64_contents == [2]
    told(app, "add", "grpc", "ann", "success", 1)
    for call in (
        lambda: stub.ModelInfer(message("add", a=1), timeout=20),
        lambda: [*stub.ModelStreamInfer(iter([message("count", n=2)]), timeout=20)],
    ):
        with pytest.raises(grpc.RpcError) as refused:
            call()
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert refused.value.details() == "who are you?"
    assert len([*stub.ModelStreamInfer(iter([message("count", n=4)]), metadata=keys, timeout=20)]) == 4
    told(app, "count", "grpc", "ann", "success", 4)


def test_typed_grpc(app: Running) -> None:
    keys = tuple(ANN.items())
    with grpc.insecure_channel(app.grpc) as channel:
        service = Reflected(channel).service()
        assert service.call("PredictAdd", a=5, metadata=keys).result == 6
        with pytest.raises(grpc.RpcError) as refused:
            service.call("PredictAdd", a=5)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as failed:
            service.call("PredictAdd", a=-2, metadata=keys)
        assert failed.value.code() is grpc.StatusCode.ALREADY_EXISTS
        items = service.call("PredictCount", n=6, metadata=keys)
        assert [item.result for item in items] == [0, 1, 2, 3, 4, 5]
    told(app, "count", "grpc", "ann", "success", 6)


def test_triton_stream(app: Running, stub: GRPCInferenceServiceStub) -> None:

    answers: list = []
    with triton.InferenceServerClient(app.grpc) as client:
        for headers in ({}, ANN):
            client.start_stream(lambda result, error: answers.append(error or result), headers=headers)
            tensor = triton.InferInput("n", [1], "INT64")
            tensor.set_data_from_numpy(np.array([2]))
            before = len(answers)
            client.async_stream_infer("count", [tensor])
            eventually(lambda: len(answers) - before == (2 if headers else 1))  # noqa: B023
            client.stop_stream()
    assert "who are you?" in str(answers[0])
    told(app, "count", "grpc", "ann", "success", 2)


def test_openai_and_tgi(app: Running) -> None:
    with openai.OpenAI(base_url=f"{app.url}/v1", api_key="ann", max_retries=0) as client:
        answer = client.completions.create(model="words", prompt="a b c")
        assert answer.choices[0].text == "a b c "
        told(app, "words", "openai", "ann", "success", 3)
    with openai.OpenAI(base_url=f"{app.url}/v1", api_key="mallory", max_retries=0) as client:
        with pytest.raises(openai.PermissionDeniedError):
            client.completions.create(model="words", prompt="a")
    refused = httpx.post(f"{app.url}/v1/completions", json={"model": "words", "prompt": "a"}, timeout=20)
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
    assert httpx.post(f"{app.url}/generate", json={"inputs": "a"}, timeout=20).status_code == 401
    generated = InferenceClient(model=app.url, token="ann").text_generation("a b")
    assert generated == "a b "
    told(app, "words", "tgi", "ann", "success", 2)


def test_json_rpc(app: Running) -> None:
    call = {"jsonrpc": "2.0", "method": "add", "params": {"a": 1}, "id": 1}
    refused = httpx.post(f"{app.url}/rpc", json=call, timeout=20).json()["error"]
    assert (refused["message"], refused["data"]["status"]) == ("who are you?", 401)
    assert httpx.post(f"{app.url}/rpc", json=call, headers=ANN, timeout=20).json()["result"] == 2
    told(app, "add", "jsonrpc", "ann", "success", 1)


def test_refusal_has_www_authenticate_and_retry_after(app: Running, stub: GRPCInferenceServiceStub) -> None:
    calls = [
        ("/v2/models/words/infer", request(prompt="a")),
        ("/v2/models/words/generate_stream", {"prompt": "a"}),
        ("/v1/completions", {"model": "words", "prompt": "a"}),
        ("/generate", {"inputs": "a"}),
    ]
    eager = {"authorization": "Bearer eager"}
    for path, body in calls:
        unknown = httpx.post(app.url + path, json=body, timeout=20)
        assert (unknown.status_code, unknown.headers["www-authenticate"]) == (401, "Bearer")
        assert "retry-after" not in unknown.headers
        early = httpx.post(app.url + path, json=body, headers=eager, timeout=20)
        assert (early.status_code, early.headers["retry-after"]) == (429, "7")
        assert "www-authenticate" not in early.headers
    call = {"jsonrpc": "2.0", "method": "add", "params": {"a": 1}, "id": 1}
    early = httpx.post(f"{app.url}/rpc", json=call, headers=eager, timeout=20)
    assert early.json()["error"]["data"]["retry_after"] == 7
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(ModelInferRequest(model_name="add"), metadata=[*eager.items()])
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert ("retry-after", "7") in caught.value.trailing_metadata()


def test_mapped_exception_has_its_status(app: Running, stub: GRPCInferenceServiceStub) -> None:
    for a, status, text in ((-1, 418, "odd"), (-2, 409, "negative")):
        answer = app.infer("add", request(a=a), headers=ANN)
        assert (answer.status_code, answer.json()["error"]) == (status, text)
    for a, code, text in (
        (-1, grpc.StatusCode.INVALID_ARGUMENT, "odd"),
        (-2, grpc.StatusCode.ALREADY_EXISTS, "negative"),
    ):
        with pytest.raises(grpc.RpcError) as failed:
            stub.ModelInfer(message("add", a=a), metadata=[*ANN.items()], timeout=20)
        assert (failed.value.code(), failed.value.details()) == (code, text)


@pytest.mark.parametrize(
    ("model", "code", "text"),
    [("count", "already_exists", "after all"), ("blocking_count", "invalid", "odd")],
)
def test_a_mapped_exception_in_a_stream(
    app: Running, stub: GRPCInferenceServiceStub, model: str, code: str, text: str
) -> None:
    with httpx.Client(timeout=20) as client:
        url = f"{app.url}/v2/models/{model}/infer_stream"
        with connect_sse(client, "POST", url, json=request(n=2, fail=True), headers={**ANN}) as events:
            *items, last = events.iter_sse()
    assert len(items) == 2
    failure = json.loads(last.data)
    assert (last.event, failure["error"], failure["code"]) == ("error", text, code)
    told(app, model, "v2", "ann", code, 2)
    stream = stub.ModelStreamInfer(
        iter([message(model, n=2, fail=True)]), metadata=[*ANN.items()], timeout=20
    )
    with pytest.raises(grpc.RpcError) as failed:
        list(stream)
    assert failed.value.details() == text
    status = {"already_exists": "ALREADY_EXISTS", "invalid": "INVALID_ARGUMENT"}[code]
    assert failed.value.code() is grpc.StatusCode[status]


def test_every_front_end_process_is_guarded(app: Running, frontends: int) -> None:
    if frontends == 1:
        pytest.skip("there is one process")
    with clients(app) as opened:
        for client in opened:
            answer = client.post("/v2/models/add/infer", json=request(a=1))
            assert answer.status_code == 401
            answer = client.post(
                "/v2/models/add/infer", json=request(a=1), headers={"authorization": "Bearer bob"}
            )
            assert answer.status_code == 200
    pids = {app.process.pid, *front_ends(app)}

    def seen() -> bool:
        lines = [line.split() for line in app.log.read_text().splitlines()]
        return pids <= {int(line[-1]) for line in lines if line[3] == "bob"}

    eventually(seen)


def test_the_access_log_has_a_line_for_each_call(app: Running) -> None:
    app.infer("add", request(a=1), headers={"authorization": "Bearer logged"})
    app.infer("count", request(n=3), "infer_stream", headers={"authorization": "Bearer logged"})

    def lines() -> list[str]:
        return [line for line in app.text().splitlines() if line.endswith(", logged")]

    eventually(lambda: len(lines()) == 2)
    first, second = lines()
    assert "[inferstream.access]" in first
    assert "INFO - v2 infer add: success, " in first
    assert first.endswith(" ms, 1 item, logged")
    assert "v2 stream count: success, " in second
    assert second.endswith(" ms, 3 items, logged")


def test_front_end_with_import_error_serves_nothing(tmp_path: Path, start, workers: int) -> None:
    condition = 'import sys\nif "inferstream.server.frontends.front_end" in sys.orig_argv:\n    raise RuntimeError("no database here")\n'
    (tmp_path / "app.py").write_text(condition + APP)
    settings = {"parallel_workers": workers, "frontends": 2}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    running = start(tmp_path / "app.py", wait=False)
    eventually(lambda: "no database here" in running.text(), 40)
    if running.process.poll() is None:
        eventually(lambda: running.listens() or running.process.poll() is not None, 40)
    if running.process.poll() is None:
        running.read_ports()
        assert running.infer("add", request(a=1), headers=ANN).status_code == 503
