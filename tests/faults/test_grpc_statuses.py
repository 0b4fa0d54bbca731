"""Whatever happens to an RPC: its client gets a declared status, and the status tells nothing it should not."""

import json
from collections.abc import Iterator

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelMetadataRequest, ModelReadyRequest
from inferstream.protos.dataplane_pb2_grpc import METHODS, GRPCInferenceServiceStub
from tests.engines import EVERY_ENGINE
from tests.serving import Running, text, write_model

pytestmark = EVERY_ENGINE

Code = grpc.StatusCode

CORE = "/inference.GRPCInferenceService/"
LEGACY = "/inference.model_repository.ModelRepositoryService/"
UNARY = [
    *(CORE + method.name for method in METHODS if not method.client_streaming),
    *(LEGACY + name for name in ("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload")),
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/List",
]
STREAMS = [
    CORE + "ModelStreamInfer",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
]
GARBAGE = b"\xff\xff\xff garbage"


@pytest.fixture
def channel(server: Running) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.grpc) as channel:
        yield channel


def ask(channel: grpc.Channel, path: str, *messages: bytes, **options) -> list[bytes]:
    """Every answer to these bytes; one that never comes is DEADLINE_EXCEEDED."""
    if path in STREAMS:
        return list(channel.stream_stream(path)(iter(messages), timeout=20, **options))
    return [channel.unary_unary(path)(*messages, timeout=20, **options)]


def request(model: str, **parameters: str | int) -> bytes:
    message = ModelInferRequest(model_name=model)
    for name, value in parameters.items():
        setattr(message.parameters[name], "string_param" if isinstance(value, str) else "int64_param", value)
    return message.SerializeToString()


@pytest.mark.parametrize("path", [*UNARY, *STREAMS])
def test_malformed_message_is_invalid_argument(server: Running, channel, path: str) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        ask(channel, path, GARBAGE)

    assert failure.value.code() is Code.INVALID_ARGUMENT, failure.value
    assert failure.value.details().startswith("The message is not a ")
    server.probe()


@pytest.mark.parametrize("path", [*UNARY, *STREAMS])
def test_bytes_over_the_limit_are_resource_exhausted(server: Running, channel, path: str) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        ask(channel, path, b"\x0a" + bytes(6 * 2**20))

    assert failure.value.code() is Code.RESOURCE_EXHAUSTED, failure.value
    server.probe()


@pytest.mark.parametrize("mode", ["value", "exit", "none", "cancelled"])
def test_failing_model_metadata_is_internal(server: Running, channel, mode: str) -> None:
    model = f"undescribed-{mode}"
    with pytest.raises(grpc.RpcError) as failure:
        ask(channel, CORE + "ModelMetadata", ModelMetadataRequest(name=model).SerializeToString())
    answer = httpx.get(f"{server.url}/v2/models/{model}", timeout=20)

    assert failure.value.code() is Code.INTERNAL, failure.value
    assert answer.status_code == 500
    assert answer.json()["error"] == failure.value.details()
    assert model in failure.value.details()
    assert "canary" not in failure.value.details()
    server.probe()


@pytest.mark.parametrize("words", ["x", "%", "日", "\n"])
@pytest.mark.parametrize("action", ["ModelInfer", "ModelStreamInfer"])
def test_long_error_message_is_truncated_and_keeps_status(server: Running, channel, action, words) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        ask(channel, CORE + action, request("failing", mode="say", words=words, times=30_000))

    assert failure.value.code() is Code.INVALID_ARGUMENT, failure.value
    assert set(failure.value.details()) == {words, "…"}
    assert len(failure.value.details()) > 400
    server.probe()


def test_oversized_model_name_is_not_found(server: Running, channel) -> None:
    name = "näme" * 10_000
    asked = {
        CORE + "ModelInfer": request(name),
        CORE + "ModelStreamInfer": request(name),
        CORE + "ModelMetadata": ModelMetadataRequest(name=name).SerializeToString(),
        "/grpc.health.v1.Health/Check": health_pb2.HealthCheckRequest(service=name).SerializeToString(),
    }
    for path, message in asked.items():
        with pytest.raises(grpc.RpcError) as failure:
            ask(channel, path, message)
        assert failure.value.code() is Code.NOT_FOUND, path


@pytest.mark.parametrize("mode", ["lone surrogate", "no text"])
def test_non_string_error_message_becomes_string(server: Running, channel, mode: str) -> None:
    asked = request("failing", mode=mode)
    for action in ("ModelInfer", "ModelStreamInfer"):
        with pytest.raises(grpc.RpcError) as failure:
            ask(channel, CORE + action, asked)
        assert failure.value.code() is Code.INVALID_ARGUMENT, failure.value
        assert failure.value.details() in ("half a pair: ?", "5")
    [answer] = ask(channel, CORE + "ModelStreamInfer", asked, metadata=(("x-stream-dialect", "triton"),))
    assert failure.value.details().encode() in answer
    over_rest = server.infer("failing", text(parameters={"mode": mode}))
    assert over_rest.status_code == 400
    assert over_rest.json()["error"] == failure.value.details()


HEADERS = {
    "illegal value": {"x-bad": "a\r\nb: c"},
    "not ASCII": {"x-bad": "日本"},
    "illegal name": {"x bad": "yes"},
    "reserved name": {"grpc-status": "3"},
    "binary": {"x-bad-bin": "yes"},
    "too large": {"x-bad": "y" * 20_000},
    "too many": {f"x-bad-{i}": "yes" for i in range(1000)},
}


@pytest.mark.parametrize("case", HEADERS)
def test_invalid_header_drops_only_itself(server: Running, channel, case: str) -> None:
    asked = request("headed", set=json.dumps({"x-good": "yes", **HEADERS[case]}))

    _, call = channel.unary_unary(CORE + "ModelInfer").with_call(asked, timeout=20)
    stream = channel.stream_stream(CORE + "ModelStreamInfer")(iter([asked]), timeout=20)

    assert ("x-good", "yes") in call.trailing_metadata()
    assert len(list(stream)) == 1
    assert ("x-good", "yes") in stream.trailing_metadata()
    server.probe()


def test_failed_model_is_unavailable(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "broken", "faulty_models.Nobody")
    server = serve(folder)
    with grpc.insecure_channel(server.grpc) as channel:
        ready = GRPCInferenceServiceStub(channel).ModelReady(ModelReadyRequest(name="broken"), timeout=20)
        assert not ready.ready
        metadata = ModelMetadataRequest(name="broken").SerializeToString()
        for action, asked in {
            "ModelInfer": request("broken"),
            "ModelStreamInfer": request("broken"),
            "ModelMetadata": metadata,
        }.items():
            with pytest.raises(grpc.RpcError) as failure:
                ask(channel, CORE + action, asked)
            assert failure.value.code() is Code.UNAVAILABLE, action


def test_oversized_response_is_resource_exhausted(serve, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "spinning", "faulty_models.Spinning")
    (folder / "settings.json").write_text('{"grpc_max_message_length": 65536}')
    server = serve(folder)

    with grpc.insecure_channel(server.grpc) as channel:
        for action in ("ModelInfer", "ModelStreamInfer"):
            with pytest.raises(grpc.RpcError) as failure:
                ask(channel, CORE + action, request("spinning", items=1, size=100_000))
            assert failure.value.code() is Code.RESOURCE_EXHAUSTED, action
    server.probe()
