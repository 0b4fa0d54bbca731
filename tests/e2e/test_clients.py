"""Clients that others wrote, unmodified, against a running server."""

import json
import queue
import subprocess
import sys
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from httpx_sse import connect_sse
from tritonclient.utils import InferenceServerException

from tests.serving import Running

VALUES = {
    "BOOL": np.array([[True, False]]),
    "INT8": np.array([[-128, 127]], dtype=np.int8),
    "UINT16": np.array([[0, 65535]], dtype=np.uint16),
    "INT64": np.array([[-(2**63), 2**63 - 1]], dtype=np.int64),
    "UINT64": np.array([[0, 2**64 - 1]], dtype=np.uint64),
    "FP16": np.array([[1.5, -2.0]], dtype=np.float16),
    "FP32": np.array([[1.5, -2.0]], dtype=np.float32),
    "FP64": np.array([[1e300, -2.0]]),
    "BYTES": np.array([["", "a\x00é🙂"]], dtype=object),
}


def same(found, expected) -> bool:
    if expected.dtype == object:
        texts = [value.decode() if isinstance(value, bytes) else value for value in found.reshape(-1)]
        return texts == list(expected.reshape(-1))
    return found.dtype == expected.dtype and np.array_equal(found, expected)


@pytest.fixture
def http(server: Running):
    client = triton_http.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    yield client
    client.close()


@pytest.fixture
def rpc(server: Running):
    client = triton_grpc.InferenceServerClient(server.grpc)
    yield client
    client.close()


@pytest.mark.parametrize(
    ("datatype", "binary"),
    [(datatype, binary) for datatype in VALUES for binary in (True, False) if binary or datatype != "FP16"],
)  # tritonclient itself refuses FP16 as JSON
def test_tritonclient_http_infers(http, datatype: str, binary: bool) -> None:
    value = VALUES[datatype]
    given = triton_http.InferInput("x", list(value.shape), datatype)
    given.set_data_from_numpy(value, binary_data=binary)
    asked = triton_http.InferRequestedOutput("x", binary_data=binary)
    found = http.infer("echo", [given], outputs=[asked], request_id="r")
    assert same(found.as_numpy("x"), value)
    assert found.get_response()["id"] == "r"


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_tritonclient_http_compresses_requests_and_responses(http, compression: str) -> None:
    value = np.arange(1000, dtype=np.float32)
    given = triton_http.InferInput("x", [1000], "FP32")
    given.set_data_from_numpy(value)
    found = http.infer(
        "echo", [given], request_compression_algorithm=compression, response_compression_algorithm=compression
    )
    assert same(found.as_numpy("x"), value)


def test_tritonclient_http_empty_tensors_and_nan(http) -> None:
    for value in (np.zeros((0, 2), np.float32), np.array([[np.nan, np.inf]], np.float32)):
        for binary in (True, False):
            given = triton_http.InferInput("x", list(value.shape), "FP32")
            given.set_data_from_numpy(value, binary_data=binary)
            found = http.infer("echo", [given]).as_numpy("x")
            assert np.array_equal(found, value, equal_nan=True)


@pytest.mark.parametrize("kind", ["http", "rpc"])
def test_tritonclient_manages_repository(http, rpc, kind: str) -> None:
    client = http if kind == "http" else rpc
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("echo")
    assert not client.is_model_ready("nobody")
    metadata = client.get_server_metadata()
    assert (metadata["name"] if isinstance(metadata, dict) else metadata.name) == "inferstream"
    model = client.get_model_metadata("declared")
    assert (model["name"] if isinstance(model, dict) else model.name) == "declared"
    client.get_model_repository_index()
    client.load_model("both")
    assert client.is_model_ready("both")
    client.unload_model("both", unload_dependents=True)
    assert not client.is_model_ready("both")
    client.load_model("both")
    with pytest.raises(InferenceServerException, match="not found"):
        client.load_model("nobody")
    with pytest.raises(InferenceServerException, match="not found"):
        client.get_model_metadata("nobody")


@pytest.mark.parametrize("datatype", VALUES)
def test_tritonclient_grpc_infers(rpc, datatype: str) -> None:
    value = VALUES[datatype]
    given = triton_grpc.InferInput("x", list(value.shape), datatype)
    given.set_data_from_numpy(value)
    found = rpc.infer(
        "echo", [given], request_id="r", priority=1, parameters={"custom": 0.5}, compression_algorithm="gzip"
    )
    assert same(found.as_numpy("x"), value)
    assert found.get_response().id == "r"


def test_tritonclient_grpc_sends_megabytes(rpc) -> None:
    value = np.zeros(900_000, np.float32)
    given = triton_grpc.InferInput("x", [900_000], "FP32")
    given.set_data_from_numpy(value)
    assert rpc.infer("echo", [given]).as_numpy("x").nbytes == value.nbytes


def test_tritonclient_grpc_streams(rpc) -> None:
    answers: queue.Queue = queue.Queue()
    rpc.start_stream(lambda result, error: answers.put((result, error)))
    for i in range(3):
        given = triton_grpc.InferInput("text", [1], "BYTES")
        given.set_data_from_numpy(np.array([f"w{i}"], dtype=object))
        rpc.async_stream_infer("streaming", [given], request_id=str(i), enable_empty_final_response=True)
    rpc.async_stream_infer("nobody", [given], request_id="n")
    rpc.stop_stream()

    found = [answers.get_nowait() for _ in range(answers.qsize())]
    errors = [error for _, error in found if error is not None]
    assert ["not found" in str(error) for error in errors] == [True]
    results = [result.get_response() for result, error in found if error is None]
    for i in range(3):
        mine = [result for result in results if result.id == str(i)]
        assert [len(result.outputs) for result in mine] == [1, 1, 1, 0]
        assert mine[-1].parameters["triton_final_response"].bool_param


async def test_tritonclient_aio_infers_and_streams(server: Running) -> None:
    value = VALUES["FP32"]
    async with triton_http_aio.InferenceServerClient(f"127.0.0.1:{server.http_port}") as http:
        given = triton_http.InferInput("x", [1, 2], "FP32")
        given.set_data_from_numpy(value)
        assert same((await http.infer("echo", [given])).as_numpy("x"), value)
        assert (await http.get_server_metadata())["name"] == "inferstream"
        assert await http.is_model_ready("echo")
        await http.get_model_repository_index()
    async with triton_grpc_aio.InferenceServerClient(server.grpc) as rpc:
        given = triton_grpc.InferInput("x", [1, 2], "FP32")
        given.set_data_from_numpy(value)
        assert same((await rpc.infer("echo", [given])).as_numpy("x"), value)

        async def requests():
            for i in range(2):
                yield {"model_name": "both", "inputs": [given], "request_id": str(i)}

        ids = [result.get_response().id async for result, _ in rpc.stream_infer(requests())]
        assert sorted(ids) == ["0", "1"]
        with pytest.raises(InferenceServerException, match="DEADLINE_EXCEEDED"):
            slow = await rpc.infer("slow", [given], client_timeout=0.2)
            assert slow is None


def test_httpx_sse_reads_the_stream(server: Running) -> None:
    body = {"inputs": [{"name": "p", "shape": [1], "datatype": "BYTES", "data": ["x"]}], "id": "s"}
    with httpx.Client() as client:
        with connect_sse(
            client, "POST", f"{server.url}/v2/models/streaming/generate_stream", json=body
        ) as source:
            events = [json.loads(event.data) for event in source.iter_sse()]
    assert [event["outputs"][0]["data"] for event in events] == [["item 0"], ["item 1"], ["item 2"]]
    assert {event["id"] for event in events} == {"s"}


DOCUMENTED = """
import asyncio, sys
import grpc, httpx
from httpx_sse import connect_sse
from inferstream import types
from inferstream.codecs import StringCodec
from inferstream.protos.converters import ModelInferResponseConverter
import inferstream.protos.converters as converters
import inferstream.protos.dataplane_pb2_grpc as dataplane

rest, rpc = sys.argv[1:]
inference_request = types.InferenceRequest.parse_file("./generate-request.json")

with httpx.Client() as client:
    with connect_sse(client, "POST", f"{rest}/v2/models/text-model/generate_stream", json=inference_request.dict()) as event_source:
        for sse in event_source.iter_sse():
            response = types.InferenceResponse.parse_raw(sse.data)
            print(StringCodec.decode_output(response.outputs[0]))

inference_request.inputs[0] = StringCodec.encode_input("prompt", inference_request.inputs[0].data.__root__)
inference_request_g = converters.ModelInferRequestConverter.from_types(
    inference_request, model_name="text-model", model_version=None
)

async def get_inference_request_stream(inference_request):
    yield inference_request

async def main():
    async with grpc.aio.insecure_channel(rpc) as grpc_channel:
        grpc_stub = dataplane.GRPCInferenceServiceStub(grpc_channel)
        inference_request_stream = get_inference_request_stream(inference_request_g)
        async for response in grpc_stub.ModelStreamInfer(inference_request_stream):
            response = ModelInferResponseConverter.to_types(response)
            print(StringCodec.decode_output(response.outputs[0]))

asyncio.run(main())
"""
REQUEST = """{"inputs": [{"name": "prompt", "shape": [1], "datatype": "BYTES",
 "data": ["What is the capital of France?"], "parameters": {"content_type": "str"}}], "outputs": [{"name": "output"}]}"""


def test_documented_mlserver_client_runs_with_changed_imports(serve, tmp_path) -> None:
    example = Path(__file__).parents[2] / "examples" / "text-stream"
    folder = tmp_path / "text-model"
    folder.mkdir()
    (folder / "model-settings.json").write_text((example / "model-settings.json").read_text())
    code = (example / "text_model.py").read_text().replace("asyncio.sleep(0.5)", "asyncio.sleep(0.01)")
    (folder / "text_model.py").write_text(code)
    (folder / "settings.json").write_text('{"debug": false, "parallel_workers": 0, "gzip_enabled": true}')
    server = serve(folder)
    (tmp_path / "generate-request.json").write_text(REQUEST)
    (tmp_path / "client.py").write_text(DOCUMENTED)

    ran = subprocess.run(
        [sys.executable, "client.py", server.url, server.grpc],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    words = [["What"], [" is"], [" the"], [" capital"], [" of"], [" France?"]]
    assert ran.stdout.splitlines() == [str(word) for word in words] * 2, ran.stderr


def test_all_stream_kinds_and_unary_over_grpc(server: Running) -> None:
    from inferstream.codecs import StringCodec
    from inferstream.protos.converters import ModelInferRequestConverter as Requests
    from inferstream.protos.converters import ModelInferResponseConverter as Responses
    from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
    from inferstream.types import InferenceRequest

    def asked(model: str, *words: str, **more):
        for word in words:
            yield Requests.from_types(
                InferenceRequest(inputs=[StringCodec.encode_input("text", [word])], **more), model_name=model
            )

    def told(messages) -> list[str]:
        return [StringCodec.decode_output(Responses.to_types(message).outputs[0])[0] for message in messages]

    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        assert told(stub.ModelStreamInfer(asked("streaming", "x"))) == ["item 0", "item 1", "item 2"]
        assert told(stub.ModelStreamInfer(asked("collecting", "a", "b", "c"))) == ["a b c"]
        assert told(stub.ModelStreamInfer(asked("both", "a", "b", id="i"))) == ["streamed i", "streamed i"]
        assert told([stub.ModelInfer(next(asked("both", "a")))]) == ["predicted"]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_describes_services_for_grpcurl(server: Running, version: str) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        database = reflection_database(channel, version)
        assert list(database.get_services()) == [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "inference.GRPCInferenceService",
            "inferstream.control.Requests",
        ]
        pool = DescriptorPool(database)
        described = {name: pool.FindServiceByName(name).methods_by_name for name in database.get_services()}
    stream = described["inference.GRPCInferenceService"]["ModelStreamInfer"]
    assert stream.output_type.full_name == "inference.ModelInferResponse"
    assert stream.client_streaming
    assert {*described["grpc.health.v1.Health"]} == {"Check", "List", "Watch"}


def reflection_database(channel: grpc.Channel, version: str) -> ProtoReflectionDescriptorDatabase:
    """The library's client, which knows v1alpha alone; the messages of v1 are the same."""
    database = ProtoReflectionDescriptorDatabase(channel)
    if version == "v1":
        database._stub.ServerReflectionInfo = channel.stream_stream(
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
    return database


def test_the_standard_health_service(server: Running) -> None:
    from inferstream.protos.health_pb2 import HealthListRequest, HealthListResponse

    with grpc.insecure_channel(server.grpc) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "inference.GRPCInferenceService"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        watch = stub.Watch(health_pb2.HealthCheckRequest(service="nothing"), timeout=5)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        watch.cancel()
        with pytest.raises(grpc.RpcError) as failure:
            stub.Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=5)
        listing = channel.unary_unary(
            "/grpc.health.v1.Health/List",
            request_serializer=HealthListRequest.SerializeToString,
            response_deserializer=HealthListResponse.FromString,
        )
        statuses = listing(HealthListRequest(), timeout=5).statuses
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND
    assert {name: statuses[name].status for name in statuses} == {"": 1, "inference.GRPCInferenceService": 1}


def test_mlserver_legacy_repository_service(server: Running) -> None:
    from inferstream.protos.dataplane_pb2 import RepositoryIndexRequest, RepositoryIndexResponse

    with grpc.insecure_channel(server.grpc) as channel:
        index = channel.unary_unary(
            "/inference.model_repository.ModelRepositoryService/RepositoryIndex",
            request_serializer=RepositoryIndexRequest.SerializeToString,
            response_deserializer=RepositoryIndexResponse.FromString,
        )
        assert "echo" in [model.name for model in index(RepositoryIndexRequest(), timeout=5).models]


def test_curl_posts_with_default_options(server: Running) -> None:
    body = '{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}]}'
    ran = subprocess.run(
        ["curl", "-s", f"{server.url}/v2/models/echo/infer", "-d", body],
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert json.loads(ran.stdout)["outputs"][0]["data"] == [1]


def test_every_typed_contents_field(server: Running) -> None:
    from inferstream.protos.dataplane_pb2 import ModelInferRequest
    from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
    from inferstream.protos.grpc import FIELDS

    values = {"BOOL": [True, False], "BYTES": [b"a", b""], "FP32": [1.5, 2.0], "FP64": [1e300, 0.5]}
    with grpc.insecure_channel(server.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        for datatype, field in FIELDS.items():
            data = values.get(datatype, [1, 2])
            given = {"name": "x", "datatype": datatype, "shape": [2], "contents": {field: data}}
            answer = stub.ModelInfer(ModelInferRequest(model_name="echo", inputs=[given]), timeout=5)
            assert list(getattr(answer.outputs[0].contents, field)) == data
            assert not answer.raw_output_contents
