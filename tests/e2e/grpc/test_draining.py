"""A stop while calls are in progress: those end in peace, and a new one fails at once."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread

import grpc
import pytest
from tritonclient import grpc as triton

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.conformance.http2 import wire
from tests.conformance.http2.conversation import Conversation
from tests.serving import Running, write_model

Clients = Iterator[tuple[Running, grpc.Channel]]


@pytest.fixture(scope="module", params=[1, 2], ids=["one front end", "two front ends"])
def draining(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Clients:
    """A server that drains, and the channel of a call that keeps it from ending."""
    folder = tmp_path_factory.mktemp("draining") / "models"
    write_model(folder, "streaming", "faulty_models.Streaming")
    settings = {"frontends": request.param, "shutdown_grace": 60}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    endless = ModelInferRequest(model_name="streaming", id="rpc")
    endless.parameters["items"].int64_param = 10**6
    endless.parameters["delay"].double_param = 0.05
    with grpc.insecure_channel(running.grpc) as channel:
        stream = GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([endless]))
        next(stream)
        with Conversation(("127.0.0.1", running.grpc_port)) as conversation:
            conversation.open()
            running.begin_stop()
            conversation.wait_for(lambda frame: frame.kind == wire.GOAWAY, "GOAWAY")
        yield running, channel
        next(stream)  # it goes on
        stream.cancel()
    assert running.stop(30) == 0, running.text()


def fails(call: Callable[[], object]) -> BaseException:
    """How a call without a deadline fails. One that hangs fails the test."""
    outcome: Future[object] = Future()

    def ask() -> None:
        try:
            outcome.set_result(call())
        except Exception as error:
            outcome.set_exception(error)

    Thread(target=ask, daemon=True).start()
    error = outcome.exception(20)
    assert error is not None
    return error


def asked() -> ModelInferRequest:
    return ModelInferRequest(model_name="streaming")


def test_new_call_on_same_channel_fails_at_once(draining: tuple[Running, grpc.Channel]) -> None:
    _, channel = draining
    error = fails(lambda: GRPCInferenceServiceStub(channel).ModelInfer(asked()))
    assert isinstance(error, grpc.RpcError)
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_call_on_new_channel_fails_at_once(draining: tuple[Running, grpc.Channel]) -> None:
    running, _ = draining
    own = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(running.grpc, own) as channel:
        error = fails(lambda: GRPCInferenceServiceStub(channel).ModelInfer(asked()))
    assert isinstance(error, grpc.RpcError)
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_triton_client_call_fails_at_once(draining: tuple[Running, grpc.Channel]) -> None:
    running, _ = draining
    with triton.InferenceServerClient(running.grpc) as client:
        error = fails(lambda: client.infer("streaming", [triton.InferInput("x", [1], "FP32")]))
    assert isinstance(error, triton.InferenceServerException)
    assert error.status() == "StatusCode.UNAVAILABLE"
