"""Streams in Triton's dialect: the order of answers, errors in band or as the end, clients that never finish."""

import queue
from collections.abc import Iterator

import grpc
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelStreamInferResponse
from tests.engines import EVERY_ENGINE
from tests.serving import Running, eventually, text

pytestmark = EVERY_ENGINE

Code = grpc.StatusCode
TRITON = (("x-stream-dialect", "triton"),)
MLSERVER = (("x-stream-dialect", "mlserver"),)
FATAL = (("triton_grpc_error", "true"),)


class Open:
    """A stream whose client keeps its side open; one that hangs ends with DEADLINE_EXCEEDED."""

    def __init__(self, server: Running, metadata) -> None:
        self._asked: queue.Queue = queue.Queue()
        self._channel = grpc.insecure_channel(server.grpc)
        stream = self._channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        self.answers = stream(iter(self._asked.get, None), timeout=20, metadata=metadata)

    def ask(self, model: str, **fields) -> None:
        parameters = fields.pop("parameters", {})
        message = ModelInferRequest(model_name=model, **fields)
        for name, value in parameters.items():
            kind = {float: "double_param", int: "int64_param", str: "string_param"}[type(value)]
            setattr(message.parameters[name], kind, value)
        self._asked.put(message.SerializeToString())

    def send(self, data: bytes) -> None:
        self._asked.put(data)

    def half_close(self) -> None:
        self._asked.put(None)

    def __next__(self) -> ModelStreamInferResponse:
        return ModelStreamInferResponse.FromString(next(self.answers))

    def end(self) -> grpc.RpcError:
        """The error that the stream ends with."""
        with pytest.raises(grpc.RpcError) as failure:
            for _ in self.answers:
                pass
        return failure.value

    def close(self) -> None:
        self.half_close()
        self.answers.cancel()
        self._channel.close()


@pytest.fixture
def stream(server: Running) -> Iterator:
    opened: list[Open] = []

    def start(metadata) -> Open:
        opened.append(Open(server, metadata))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


EARLY_ERRORS = {
    "reserved parameter": ("echo", {"parameters": {"triton_x": 1}}),
    "malformed": ("echo", {"inputs": [{"name": "x", "datatype": "FP31", "shape": [1]}]}),
    "refused": ("strict", {}),
    "unknown model": ("nobody", {}),
    "model raised": ("failing", {}),
    "unwritable answer": ("failing", {"parameters": {"mode": "surrogate"}}),
}


@pytest.mark.parametrize("case", EARLY_ERRORS)
def test_early_error_waits_for_previous_responses(stream, case: str) -> None:
    model, fields = EARLY_ERRORS[case]
    asked = stream(TRITON)
    asked.ask("slow", id="first", parameters={"seconds": 0.5})
    asked.ask(model, id="second", **fields)
    asked.ask("both", id="streamed")
    asked.ask("slow", id="third", parameters={"seconds": 0})

    answers = [next(asked) for _ in range(4)]

    ids = [answer.infer_response.id for answer in answers]
    assert ids[0] == "streamed", "a model that streams waits for nobody"
    assert ids[1:] == ["first", "second", "third"]
    assert answers[2].error_message
    assert not answers[3].error_message


def test_triton_client_receives_errors_in_order(server: Running) -> None:
    from tritonclient.grpc import InferenceServerClient

    told: queue.Queue = queue.Queue()
    client = InferenceServerClient(server.grpc)
    client.start_stream(lambda result, error: told.put((result, error)), headers=dict(TRITON))
    client.async_stream_infer("slow", [], request_id="1", parameters={"seconds": 1})
    client.async_stream_infer("nobody", [], request_id="2")
    client.async_stream_infer("slow", [], request_id="3", parameters={"seconds": 0})
    answers = [told.get(timeout=20) for _ in range(3)]
    client.stop_stream()
    client.close()

    assert [error is not None for _, error in answers] == [False, True, False]
    assert [answers[0][0].get_response().id, answers[2][0].get_response().id] == ["1", "3"]


def test_waiting_response_keeps_no_slot(server: Running, stream) -> None:
    asked = stream(TRITON)
    asked.ask("slow", id="turn-1", parameters={"seconds": 30})
    asked.ask("limited", id="turn-2", parameters={"seconds": 0})
    eventually(lambda: server.noted("finally turn-2"))

    assert server.infer("limited", text(parameters={"seconds": 0})).status_code == 200
    assert not server.noted("finally turn-1")


@pytest.mark.parametrize("case", EARLY_ERRORS)
def test_first_error_ends_stream_without_half_close(server: Running, stream, case) -> None:
    model, fields = EARLY_ERRORS[case]
    name = f"others {case}"
    asked = stream(FATAL)
    asked.ask("slow", id=name, parameters={"seconds": 60})
    eventually(lambda: server.noted(f"start {name}"))
    asked.ask(model, **fields)

    ended = asked.end()

    assert ended.code() in (Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.INTERNAL), ended
    assert "canary" not in ended.details()
    eventually(lambda: server.noted(f"finally {name}"))
    server.probe()


def test_first_error_ends_stream_with_concurrent_requests(server: Running, stream) -> None:
    asked = stream(FATAL)
    for _ in range(4):
        asked.ask("spinning", id="written", parameters={"size": 10_000})
    next(asked)
    asked.ask("nobody")

    assert asked.end().code() is Code.NOT_FOUND
    eventually(lambda: server.metric("inferstream_calls_in_progress", model="spinning") == 0)
    server.probe()


@pytest.mark.parametrize("metadata", [TRITON, MLSERVER])
def test_garbage_after_valid_request_ends_stream(server: Running, stream, metadata) -> None:
    asked = stream(metadata)
    asked.ask("both", id="good")
    next(asked.answers)
    asked.send(b"\xff\xff\xff garbage")

    ended = asked.end()

    assert ended.code() is Code.INVALID_ARGUMENT, ended
    assert ended.details() == "The message is not a ModelInferRequest."
    server.probe()


@pytest.mark.parametrize("model", ["slow", "spinning"])
def test_garbage_ends_stream_in_progress(server: Running, stream, model: str) -> None:
    asked = stream(TRITON)
    asked.ask(model, id=f"unanswered {model}", parameters={"seconds": 60})
    eventually(lambda: server.noted(f"start unanswered {model}"))
    asked.send(b"\xff\xff\xff garbage")

    assert asked.end().code() is Code.INVALID_ARGUMENT
    eventually(lambda: server.noted(f"finally unanswered {model}"))
    server.probe()


def test_garbage_after_request_ends_stream_mid_response(server: Running, stream) -> None:
    for _ in range(20):  # the answer's write has to be under way just then
        asked = stream(TRITON)
        asked.ask("both", id="answered")
        asked.send(b"\xff\xff\xff garbage")
        assert asked.end().code() is Code.INVALID_ARGUMENT
    server.probe()


def test_early_half_close_loses_no_response(server: Running, stream) -> None:
    asked = stream(TRITON)
    for i in range(100):
        asked.ask(
            "echo",
            id=str(i),
            inputs=[{"name": "x", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1]}}],
        )
    asked.half_close()

    ids = [ModelStreamInferResponse.FromString(data).infer_response.id for data in asked.answers]

    assert ids == [str(i) for i in range(100)]
