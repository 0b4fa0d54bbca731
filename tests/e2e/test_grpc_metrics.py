"""The meters of gRPC, under the names that dashboards made for MLServer ask for."""

from collections.abc import Iterator

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ServerLiveRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, write_model

SERVICE = "inference.GRPCInferenceService"


@pytest.fixture
def own(serve, tmp_path) -> Running:
    """A server whose meters nobody else moves."""
    folder = tmp_path / "models"
    write_model(folder, "both", "faulty_models.Both")
    write_model(folder, "streaming", "faulty_models.Streaming")
    return serve(folder)


@pytest.fixture
def channel(own: Running) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(own.grpc) as channel:
        yield channel


def counted(server: Running, method: str, kind: str, service: str = SERVICE) -> dict[str, float]:
    labels = {"grpc_method": method, "grpc_type": kind, "grpc_service": service}
    names = ("started", "msg_received", "msg_sent", "handled")
    return {name: server.metric(f"grpc_server_{name}_total", **labels) for name in names}


def handled(server: Running, method: str, code: str) -> float:
    return server.metric("grpc_server_handled_total", grpc_method=method, grpc_code=code)


def test_unary_rpcs_are_counted(own: Running, channel) -> None:
    stub = GRPCInferenceServiceStub(channel)
    for _ in range(3):
        stub.ServerLive(ServerLiveRequest(), timeout=20)

    assert counted(own, "ServerLive", "UNARY") == {
        "started": 3,
        "msg_received": 3,
        "msg_sent": 3,
        "handled": 3,
    }
    assert own.metric("grpc_server_handling_seconds_count", grpc_method="ServerLive") == 3
    assert "ServerReady" not in httpx.get(f"{own.url}/metrics").text


def test_a_refused_request_was_received_and_not_answered(own: Running, channel) -> None:
    with pytest.raises(grpc.RpcError):
        channel.unary_unary(f"/{SERVICE}/ModelInfer")(b"\xff\xff garbage", timeout=20)

    eventually(lambda: handled(own, "ModelInfer", "INVALID_ARGUMENT") == 1)
    assert counted(own, "ModelInfer", "UNARY") == {
        "started": 1,
        "msg_received": 1,
        "msg_sent": 0,
        "handled": 1,
    }


@pytest.mark.parametrize("dialect", ["mlserver", "triton"])
def test_the_messages_of_a_stream_are_counted_as_they_pass(own: Running, channel, dialect: str) -> None:
    asked = [ModelInferRequest(model_name="both", id=str(i)) for i in range(5)]
    stream = channel.stream_stream(
        f"/{SERVICE}/ModelStreamInfer", request_serializer=ModelInferRequest.SerializeToString
    )
    answers = stream(iter(asked), timeout=20, metadata=(("x-stream-dialect", dialect),))

    assert len(list(answers)) == 5
    eventually(lambda: handled(own, "ModelStreamInfer", "OK") == 1)
    assert counted(own, "ModelStreamInfer", "BIDI_STREAMING") == {
        "started": 1,
        "msg_received": 5,
        "msg_sent": 5,
        "handled": 1,
    }


def test_a_stream_that_runs_is_started_and_not_handled(own: Running, channel) -> None:
    message = ModelInferRequest(model_name="streaming", id="running")
    message.parameters["delay"].int64_param = 60
    answers = GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([message]), timeout=20)
    next(answers)

    assert counted(own, "ModelStreamInfer", "BIDI_STREAMING") == {
        "started": 1,
        "msg_received": 1,
        "msg_sent": 1,
        "handled": 0,
    }
    answers.cancel()
    eventually(lambda: handled(own, "ModelStreamInfer", "CANCELLED") == 1)
