"""RPCs without an engine: their messages, their failures and their meters."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inferstream import App, Application
from inferstream.concurrency.scope import ClientLeft
from inferstream.errors import Overloaded
from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelInferResponse
from inferstream.server.grpc.metadata import CallMetadata
from inferstream.server.grpc.rpc import Rpc, RpcFailed, build_streaming, build_unary
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.grpc.typed import Received
from inferstream.telemetry.rpcs import RpcMeters

MODEL_INFER = "/inference.GRPCInferenceService/ModelInfer"


class Context:
    """A call of a client that has sent these messages."""

    deadline = None
    peer = "ipv4:127.0.0.1:1"
    metadata = CallMetadata(())

    def __init__(self, *messages: Any) -> None:
        self._messages = iter((*messages, None))
        self.written: list[bytes] = []

    async def read(self) -> Any:
        return next(self._messages)

    async def write(self, message: bytes) -> None:
        self.written.append(message)

    async def send_initial_metadata(self, metadata: Any) -> None: ...

    def add_trailing_metadata(self, metadata: Any) -> None: ...


def app() -> App:
    made = App()

    @made.model
    def size(text: str) -> int:
        return len(text)

    @made.model
    async def words(text: str) -> AsyncIterator[str]:
        for word in text.split():
            yield word

    return made


def infer(text: str) -> bytes:
    request = ModelInferRequest(model_name="size")
    tensor = request.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text.encode())
    return request.SerializeToString()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("length", [5, 100_000])
async def test_messages_of_every_buffer_type_are_read(kind: Any, length: int) -> None:
    text = "x" * length
    raw = ModelInferRequest(
        model_name="size", raw_input_contents=[length.to_bytes(4, "little") + text.encode()]
    )
    raw.inputs.add(name="text", datatype="BYTES", shape=[1])
    typed = b"\x0a" + _varint(length) + text.encode()
    async with Application(app()) as application:
        found = application._backend.rpcs.find(MODEL_INFER)
        assert (found.client_streams, found.server_streams) == (False, False)
        for message in (infer(text), raw.SerializeToString()):
            response = ModelInferResponse.FromString(await found.serve(kind(message), Context()))
            assert response.outputs[0].shape == [1]
        predict = application._backend.rpcs.find("/inferstream.App/PredictSize")
        assert await predict.serve(kind(typed), Context()) == b"\x08" + _varint(length)
        stream = application._backend.rpcs.find("/inferstream.App/PredictWords")
        assert (stream.client_streams, stream.server_streams) == (False, True)
        context = Context(kind(typed))
        assert await stream.serve(None, context) is None
        assert context.written == [typed]


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def failing(error: BaseException) -> tuple[Rpc, RpcMeters]:
    meters = RpcMeters("UNARY", "s", "m")

    async def fail(data: bytes, context: Any) -> bytes:
        raise error

    return build_unary(fail, Received, meters, "default", lambda serve: serve), meters


@pytest.mark.parametrize(
    ("error", "code", "trailing"),
    [
        (Overloaded("full"), StatusCode.RESOURCE_EXHAUSTED, (("retry-after", "1"),)),
        (ValueError("secret"), StatusCode.INTERNAL, ()),
        # Nobody has cancelled the task, so the client waits for a status.
        (asyncio.CancelledError(), StatusCode.INTERNAL, ()),
    ],
)
async def test_failure_has_a_status_and_is_counted(error: Any, code: Any, trailing: Any) -> None:
    rpc, meters = failing(error)
    with pytest.raises(RpcFailed) as caught:
        await rpc.serve(b"", Context())
    assert (caught.value.code, caught.value.trailing) == (code, trailing)
    assert "secret" not in caught.value.message
    assert (meters.started, meters.received, meters.sent, meters.ends) == (1, 1, 0, {code.name: 1})


async def test_disconnected_client_gets_no_status() -> None:
    rpc, meters = failing(ClientLeft())
    with pytest.raises(ClientLeft):
        await rpc.serve(b"", Context())
    assert meters.ends == {"CANCELLED": 1}


async def test_task_cancellation_propagates() -> None:
    meters = RpcMeters("BIDI_STREAMING", "s", "m")
    begun = asyncio.Event()

    async def wait(exchange: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    rpc = build_streaming(wait, Received, meters, "default", lambda serve: serve)
    task = asyncio.create_task(rpc.serve(None, Context()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert meters.ends == {"CANCELLED": 1}


async def test_invalid_message_is_refused_before_the_model() -> None:
    async with Application(app()) as application:
        with pytest.raises(RpcFailed) as caught:
            await application._backend.rpcs.find(MODEL_INFER).serve(b"\xff", Context())
    assert caught.value.code is StatusCode.INVALID_ARGUMENT
    assert caught.value.message == "The message is not a ModelInferRequest."
