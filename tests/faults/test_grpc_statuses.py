"""Whatever happens to an RPC: its client gets a declared status, and the status tells nothing it should not."""

from collections.abc import Iterator

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelMetadataRequest
from tests.serving import Running

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
