"""The meters of gRPC, under the names that dashboards made for MLServer ask for."""

from collections.abc import Callable, Iterator

import grpc
import httpx
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ServerLiveRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, metric, write_model

SERVICE = "inference.GRPCInferenceService"

Moved = Callable[..., float]
"""By how much a meter has moved since the test began."""


@pytest.fixture(scope="module")
def own(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server whose meters no other file's tests move."""
    folder = tmp_path_factory.mktemp("meters") / "models"
    write_model(folder, "both", "faulty_models.Both")
    write_model(folder, "streaming", "faulty_models.Streaming")
    running = Running(folder, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture
def channel(own: Running) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(own.grpc) as channel:
        yield channel


@pytest.fixture
def moved(own: Running) -> Moved:
    before = httpx.get(f"{own.url}/metrics").text
    return lambda name, **labels: own.metric(name, **labels) - metric(before, name, **labels)


def counted(moved: Moved, method: str, kind: str) -> dict[str, float]:
    labels = {"grpc_method": method, "grpc_type": kind, "grpc_service": SERVICE}
    names = ("started", "msg_received", "msg_sent", "handled")
    return {name: moved(f"grpc_server_{name}_total", **labels) for name in names}


def handled(moved: Moved, method: str, code: str) -> float:
    return moved("grpc_server_handled_total", grpc_method=method, grpc_code=code)


def test_unary_rpcs_are_counted(own: Running, channel, moved: Moved) -> None:
    stub = GRPCInferenceServiceStub(channel)
    for _ in range(3):
        stub.ServerLive(ServerLiveRequest(), timeout=20)

    assert counted(moved, "ServerLive", "UNARY") == {
        "started": 3,
        "msg_received": 3,
        "msg_sent": 3,
        "handled": 3,
    }
    assert moved("grpc_server_handling_seconds_count", grpc_method="ServerLive") == 3
    assert "ServerReady" not in httpx.get(f"{own.url}/metrics").text


def test_refused_request_is_received_but_not_sent(channel, moved: Moved) -> None:
    with pytest.raises(grpc.RpcError):
        channel.unary_unary(f"/{SERVICE}/ModelInfer")(b"\xff\xff garbage", timeout=20)

    eventually(lambda: handled(moved, "ModelInfer", "INVALID_ARGUMENT") == 1)
    assert counted(moved, "ModelInfer", "UNARY") == {
        "started": 1,
        "msg_received": 1,
        "msg_sent": 0,
        "handled": 1,
    }


@pytest.mark.parametrize("dialect", ["mlserver", "triton"])
def test_stream_messages_are_counted_live(channel, moved: Moved, dialect: str) -> None:
    asked = [ModelInferRequest(model_name="both", id=str(i)) for i in range(5)]
    stream = channel.stream_stream(
        f"/{SERVICE}/ModelStreamInfer", request_serializer=ModelInferRequest.SerializeToString
    )
    answers = stream(iter(asked), timeout=20, metadata=(("x-stream-dialect", dialect),))

    assert len(list(answers)) == 5
    eventually(lambda: handled(moved, "ModelStreamInfer", "OK") == 1)
    assert counted(moved, "ModelStreamInfer", "BIDI_STREAMING") == {
        "started": 1,
        "msg_received": 5,
        "msg_sent": 5,
        "handled": 1,
    }


def test_running_stream_is_started_but_not_handled(channel, moved: Moved) -> None:
    message = ModelInferRequest(model_name="streaming", id="running")
    message.parameters["delay"].int64_param = 60
    answers = GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([message]), timeout=20)
    next(answers)

    assert counted(moved, "ModelStreamInfer", "BIDI_STREAMING") == {
        "started": 1,
        "msg_received": 1,
        "msg_sent": 1,
        "handled": 0,
    }
    answers.cancel()
    eventually(lambda: handled(moved, "ModelStreamInfer", "CANCELLED") == 1)
