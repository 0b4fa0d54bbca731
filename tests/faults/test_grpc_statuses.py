"""Whatever happens to an RPC: its client gets a declared status, and the status tells nothing it should not."""

import json
from collections.abc import Iterator

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelMetadataRequest
from tests.serving import Running, text

Code = grpc.StatusCode

CORE = "/inference.GRPCInferenceService/"
STREAMS = [CORE + "ModelStreamInfer"]


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


@pytest.mark.parametrize("mode", ["value", "exit", "none", "cancelled"])
def test_a_model_that_cannot_describe_itself_is_internal(server: Running, channel, mode: str) -> None:
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


@pytest.mark.parametrize("mode", ["lone surrogate", "no text"])
def test_a_models_message_that_is_no_text_is_made_one(server: Running, channel, mode: str) -> None:
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


@pytest.mark.parametrize("words", ["x", "%", "日", "\n"])
@pytest.mark.parametrize("action", ["ModelInfer", "ModelStreamInfer"])
def test_a_long_message_is_cut_and_keeps_its_status(server: Running, channel, action, words) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        ask(channel, CORE + action, request("failing", mode="say", words=words, times=30_000))

    assert failure.value.code() is Code.INVALID_ARGUMENT, failure.value
    assert set(failure.value.details()) == {words, "…"}
    assert len(failure.value.details()) > 400
    server.probe()


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
def test_a_header_that_cannot_travel_costs_nothing_but_itself(server: Running, channel, case: str) -> None:
    asked = request("headed", set=json.dumps({"x-good": "yes", **HEADERS[case]}))

    _, call = channel.unary_unary(CORE + "ModelInfer").with_call(asked, timeout=20)
    stream = channel.stream_stream(CORE + "ModelStreamInfer")(iter([asked]), timeout=20)

    assert ("x-good", "yes") in call.trailing_metadata()
    assert len(list(stream)) == 1
    assert ("x-good", "yes") in stream.trailing_metadata()
    server.probe()
