"""Several requests on one ModelStreamInfer, from the clients of others and from ours."""

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from inferstream import Client
from inferstream.protos.dataplane_pb2 import InferTensorContents, ModelInferRequest, ModelInferResponse
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, write_model

STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
APP = """
import asyncio
from collections.abc import AsyncIterator, Iterator
from inferstream import App

app = App()


@app.model
async def words(prompt: str) -> AsyncIterator[str]:
    for word in prompt.split():
        yield word


@app.model
def lines(prompt: str) -> Iterator[str]:
    yield from prompt.split()


@app.model
def whole(prompt: str) -> str:
    return prompt


@app.model
async def reading(prompt: AsyncIterator[str]) -> AsyncIterator[str]:
    async for one in prompt:
        for word in one.split():
            yield word


@app.model
async def slow(prompt: str) -> AsyncIterator[str]:
    await asyncio.sleep(20)
    yield prompt


@app.model
def nothing() -> int:
    return 7

"""
FIRST = """
from inferstream import MLModel


class First(MLModel):
    async def predict_stream(self, payloads):
        payload = await anext(payloads)
        for word in payload.inputs[0].data.flat()[0].split():
            yield word
"""
MODELS = ("words", "lines", "whole", "reading")


@pytest.fixture(scope="module", params=["in the server", "in workers"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served") / "code"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    server = Running(
        folder / "app.py", INFERSTREAM_PARALLEL_WORKERS="1" if request.param == "in workers" else "0"
    )
    yield server
    server.stop()


def text(model: str, value: str, id: str = "", raw: bool = False, version: str = "") -> ModelInferRequest:
    message = ModelInferRequest(model_name=model, model_version=version, id=id)
    tensor = message.inputs.add(name="prompt", datatype="BYTES", shape=[1])
    data = value.encode()
    if raw:
        message.raw_input_contents.append(len(data).to_bytes(4, "little") + data)
    else:
        tensor.contents.bytes_contents.append(data)
    return message


def streamed(running: Running, *requests: ModelInferRequest, **metadata: str) -> list[tuple[str, str]]:
    """The text and the id of each response to a stub that grpcio makes. Raises grpc.RpcError."""
    with grpc.insecure_channel(running.grpc) as channel:
        call = channel.stream_stream(
            STREAM, ModelInferRequest.SerializeToString, ModelInferResponse.FromString
        )
        pairs = [(name.replace("_", "-"), value) for name, value in metadata.items()]
        return [read(response) for response in call(iter(requests), timeout=15, metadata=pairs)]


def read(response: ModelInferResponse) -> tuple[str, str]:
    [output] = response.outputs
    raw = [each[4:] for each in response.raw_output_contents]
    return (raw or output.contents.bytes_contents)[0].decode(), response.id


@pytest.mark.parametrize("model", MODELS)
def test_every_stream_request_gets_response_with_its_id(running: Running, model: str) -> None:
    got = streamed(running, text(model, "a b", "1"), text(model, "c d", "2"), text("", "e", "3"))
    expected = (
        [("a b", "1"), ("c d", "2")] if model == "whole" else [("a", "1"), ("b", "1"), ("c", "2"), ("d", "2")]
    )
    assert got == [*expected, ("e", "3")]


@pytest.mark.parametrize("workers", [0, 1])
def test_unary_class_is_called_for_each_request(tmp_path: Path, workers: int) -> None:
    write_model(tmp_path / "models", "first", "first.First", FIRST)
    server = Running(tmp_path / "models", INFERSTREAM_PARALLEL_WORKERS=str(workers))
    try:
        got = streamed(server, text("first", "a b", "1"), text("first", "c", "2"))
    finally:
        server.stop()
    assert got == [("a", "1"), ("b", "1"), ("c", "2")]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("later", "named"),
    [
        (("no_such_model", "c", "2"), "no_such_model"),
        (("whole", "c", "2"), "whole"),
        (("words", "c", "2"), "words"),
        (("", "c", "2", False, "9"), "9"),
    ],
)
def test_later_request_for_other_model_is_refused(
    running: Running, model: str, later: tuple[Any, ...], named: str
) -> None:
    if later[0] == model:
        return
    with pytest.raises(grpc.RpcError) as refused:
        streamed(running, text(model, "a", "1"), text(*later))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert named in refused.value.details()


@pytest.mark.parametrize("model", MODELS)
def test_later_invalid_request_is_refused(running: Running, model: str) -> None:
    wrong = text("", "c")
    wrong.inputs[0].datatype = "INT64"
    wrong.inputs[0].contents.CopyFrom(InferTensorContents(int64_contents=[1]))
    with pytest.raises(grpc.RpcError) as refused:
        streamed(running, text(model, "a", "1"), wrong)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "prompt" in refused.value.details()


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("0.2", "DEADLINE_EXCEEDED"),
        ("abc", "INVALID_ARGUMENT"),
        ("-1", "INVALID_ARGUMENT"),
        ("nan", "INVALID_ARGUMENT"),
        ("0", "INVALID_ARGUMENT"),
    ],
)
def test_metadata_time_limit_follows_header_rules(running: Running, limit: str, code: str) -> None:
    with pytest.raises(grpc.RpcError) as ended:
        streamed(running, text("slow", "a"), x_request_timeout=limit)
    assert ended.value.code().name == code


@pytest.mark.parametrize("raw", [False, True])
def test_package_stubs_receive_typed_contents_without_metadata(running: Running, raw: bool) -> None:
    with grpc.insecure_channel(running.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        responses = list(stub.ModelStreamInfer(iter([text("words", "a b", raw=raw)]), timeout=15))
        assert [read(each)[0] for each in responses] == ["a", "b"]
        assert all(bool(each.raw_output_contents) is raw for each in responses)
        whole = stub.ModelInfer(ModelInferRequest(model_name="nothing"), timeout=15)
        assert list(whole.outputs[0].contents.int64_contents) == [7]


@pytest.mark.parametrize("binary", [False, True])
def test_client_streams_bidirectionally(running: Running, binary: bool) -> None:
    with Client(f"grpc://{running.grpc}") as client:
        assert list(client.stream("words", prompt="a b")) == ["a", "b"]
        assert list(client.stream("reading", prompt=iter(["a b", "c"]))) == ["a", "b", "c"]


def test_triton_client_streams_without_metadata(running: Running) -> None:
    triton = pytest.importorskip("tritonclient.grpc")
    got: queue.Queue[Any] = queue.Queue()
    tensor = triton.InferInput("prompt", [1], "BYTES")
    with triton.InferenceServerClient(running.grpc) as client:
        client.start_stream(lambda result, error: got.put(error or result))
        for words in ("a b", "c"):
            tensor.set_data_from_numpy(np.array([words.encode()], object))
            client.async_stream_infer("words", [tensor])
        found = [got.get(timeout=15) for _ in range(3)]
        client.stop_stream()
    assert sorted(each.as_numpy("output")[0].decode() for each in found) == ["a", "b", "c"]
