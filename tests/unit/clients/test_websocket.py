"""Messages of streams over a WebSocket."""

import orjson
import pytest

from inferstream.clients.transport import ModelName, OutgoingCall, Target
from inferstream.clients.websocket import _message, _read, converse
from inferstream.errors import CallFailed, ConnectionFailed
from inferstream.protos.websocket import LENGTH
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput

REQUEST = InferenceRequest(
    id="mine", inputs=[RequestInput(name="x", datatype="INT32", shape=[2], data=[1, 2])]
)


def test_text_message_has_part_and_request_id() -> None:
    document = orjson.loads(_message(REQUEST, "first", False))
    assert (document["part"], document["id"]) == ("first", "1")
    assert document["inputs"][0]["data"] == [1, 2]


def test_binary_message_has_tensors_after_its_json() -> None:
    message = _message(REQUEST, "next", True)
    assert isinstance(message, bytes)
    length = int.from_bytes(message[:LENGTH], "little")
    document = orjson.loads(message[LENGTH : LENGTH + length])
    assert document["inputs"][0]["parameters"]["binary_data_size"] == 8
    assert message[LENGTH + length :] == bytes((1, 0, 0, 0, 2, 0, 0, 0))


def test_text_and_binary_messages_are_read() -> None:
    text = b'{"model_name":"m","outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[0.5]}]}'
    whole = _read(text.decode())
    assert isinstance(whole, InferenceResponse)
    assert whole.outputs[0].data == [0.5]
    assert _read(len(text).to_bytes(LENGTH, "little") + text).outputs[0].data == [0.5]


def test_error_message_fails_the_call() -> None:
    with pytest.raises(CallFailed, match="gone") as caught:
        _read('{"id":"1","error":"gone","code":"not_found"}')
    assert caught.value.status == 404


@pytest.mark.parametrize("message", ["no json", "[]", '{"outputs":1}'])
def test_invalid_response_is_reported(message: str) -> None:
    with pytest.raises(CallFailed, match="is not a V2 response"):
        _read(message)


async def test_connection_failure_is_retryable() -> None:
    async def more():  # type: ignore[no-untyped-def]
        yield REQUEST

    call = OutgoingCall(ModelName("m"), REQUEST, more=more())
    with pytest.raises(ConnectionFailed) as caught:
        await anext(converse(Target("http://127.0.0.1:1"), call))
    assert (caught.value.unreachable, caught.value.retryable) == (True, True)
