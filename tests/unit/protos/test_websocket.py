"""Messages of a WebSocket as bytes."""

import json

import pytest

from inferstream.errors import Cancelled, InvalidRequest
from inferstream.protos.json_checks import JsonLimits
from inferstream.protos.websocket import FlatMessages, SocketMessage, V2Messages, dump_error
from inferstream.types import InferenceResponse, Parameters, RequestInput, ResponseOutput

LIMITS = JsonLimits(1024, 8, 64)
RESPONSE = InferenceResponse(
    model_name="m",
    id="a",
    parameters=Parameters(content_type="str", kept=1),
    outputs=[ResponseOutput(name="x", shape=[2], datatype="INT8", data=[1, 2])],
)


def binary(document: dict, *blobs: bytes) -> bytes:
    body = json.dumps(document).encode()
    return b"".join((len(body).to_bytes(4, "little"), body, *blobs))


def test_binary_message_is_json_followed_by_tensors() -> None:
    tensors = [
        {"name": name, "shape": [2], "datatype": "INT8", "parameters": {"binary_data_size": 2}}
        for name in ("x", "y")
    ]
    request, _ = SocketMessage(
        binary({"id": "a", "inputs": tensors}, b"\x01\x02", b"\x03\x04"), False, LIMITS
    ).request()
    x, y = request.inputs
    assert isinstance(x, RequestInput)
    assert (x.data.to_raw("INT8"), y.data.to_raw("INT8")) == (b"\x01\x02", b"\x03\x04")


@pytest.mark.parametrize("size", range(4))
def test_binary_message_has_a_length(size: int) -> None:
    with pytest.raises(InvalidRequest, match=f"this one of {size} bytes does not"):
        SocketMessage(b"\x00" * size, False, LIMITS)


def test_part_and_cancel_do_not_reach_the_model() -> None:
    frame = SocketMessage(b'{"id":"a","part":"first","inputs":[],"parameters":{"k":1}}', True, LIMITS)
    request, _ = frame.request()
    assert frame.part == "first"
    assert "part" not in request.model_dump()
    assert request.parameters is not None
    assert dict(request.parameters.items()) == {"k": 1}


def test_empty_id_is_none() -> None:
    assert SocketMessage(b'{"id":"","inputs":[]}', True, LIMITS).id is None


@pytest.mark.parametrize("final", [True, False])
def test_response_is_marked_as_last_without_changing_the_model_response(final: bool) -> None:
    message, text = V2Messages(None).dump(RESPONSE, final=final)
    assert text
    assert json.loads(message)["parameters"] == {
        "content_type": "str",
        "kept": 1,
        "triton_final_response": final,
    }
    assert RESPONSE.parameters is not None
    assert dict(RESPONSE.parameters.items()) == {"content_type": "str", "kept": 1}


def test_response_with_binary_output_is_a_binary_message() -> None:
    message, text = V2Messages((True, {})).dump(RESPONSE, final=True)
    assert not text
    end = 4 + int.from_bytes(message[:4], "little")
    assert json.loads(message[4:end])["outputs"][0]["parameters"] == {"binary_data_size": 2}
    assert message[end:] == b"\x01\x02"


def test_end_and_error_have_the_id() -> None:
    assert json.loads(V2Messages(None).end("m", "1", "a")[0]) == {
        "model_name": "m",
        "model_version": "1",
        "id": "a",
        "parameters": {"triton_final_response": True},
        "outputs": [],
    }
    assert json.loads(dump_error("a", Cancelled())[0])["id"] == "a"
    assert "id" not in json.loads(dump_error(None, Cancelled())[0])


@pytest.mark.parametrize(
    ("message", "flat"),
    [
        (b'{"prompt":"a"}', True),
        (b'{"id":"1","model":"m","prompt":"a","parameters":{"k":1}}', True),
        (b'{"id":"1","inputs":5}', False),
        (b'{"inputs":[]}', False),
        (b'{"id":"1"}', False),
        (b'{"id":"1","part":"first","prompt":"a"}', False),
    ],
)
def test_flat_json_is_recognized_by_its_keys(message: bytes, flat: bool) -> None:
    assert SocketMessage(message, True, LIMITS).flat is flat
    assert not SocketMessage(binary(json.loads(message)), False, LIMITS).flat


@pytest.mark.parametrize("named", [True, False])
def test_flat_responses_have_the_client_id_and_the_last_mark(named: bool) -> None:
    messages, known = FlatMessages(named, None), {"id": "a"} if named else {}
    first, text = messages.dump(RESPONSE, final=False)
    assert text
    assert json.loads(first) == {
        "x": [1, 2],
        "kept": 1,
        "triton_final_response": False,
        "model_name": "m",
        "model_version": "",
        **known,
    }
    end = {"triton_final_response": True, "model_name": "m", "model_version": "1", **known}
    assert json.loads(messages.end("m", "1", "a")[0]) == end
