"""Whole V2 requests: what is sent, what is repeated, and how they are encoded."""

import json

import pytest

from inferstream.clients import retries
from inferstream.clients.transport import ModelName, Target
from inferstream.clients.v2 import V2Client
from inferstream.errors import CallFailed, InvalidRequest
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.types import InferenceRequest, RequestInput
from tests.unit.clients.scripted import BUSY, Scripted, number

REQUEST = InferenceRequest(inputs=[RequestInput(name="x", shape=[1], datatype="INT64", data=[7])])


def client(transport: Scripted, **options: object) -> V2Client:
    made = V2Client(Target("http://host:1", **options))
    made._transport = transport  # type: ignore[assignment]
    return made


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "pause_after", lambda made, requested: 0.0)


async def test_call_has_target_limits_without_sending_them() -> None:
    transport = Scripted(number(1))
    response = await client(transport, timeout=9, binary=True).infer("m", REQUEST, {"x-a": "1"})
    [call] = transport.calls
    assert (response.outputs[0].data.flat(), call.model, call.request) == ([1], ModelName("m"), REQUEST)
    assert (call.timeout, call.binary, call.http_headers()) == (9, True, {"x-a": "1"})


async def test_retryable_call_is_retried_up_to_the_configured_count() -> None:
    lost = CallFailed("the connection ended", retryable=True)
    transport = Scripted(BUSY, lost, number(1))
    await client(transport).infer("m", REQUEST, retries=2)
    assert len(transport.calls) == 3
    with pytest.raises(CallFailed, match="full"):
        await client(Scripted(BUSY, number(1))).infer("m", REQUEST)


async def test_stream_yields_each_response() -> None:
    transport = Scripted(number(1), number(2), None)
    items = [response.outputs[0].data.flat() async for response in client(transport).stream("m", REQUEST)]
    assert items == [[1], [2]]


@pytest.mark.parametrize("binary", [False, True])
async def test_request_is_encoded_when_sent(binary: bool) -> None:
    rest, rpc = (V2Client(Target("host:1", binary=binary), over_grpc=grpc) for grpc in (False, True))
    headers, body = rest.encode("m", REQUEST)
    length = int(headers.get("inference-header-content-length", len(body)))
    assert headers["content-type"] == ("application/octet-stream" if binary else "application/json")
    assert json.loads(body[:length])["inputs"][0]["name"] == "x"
    assert body[length:] == (b"\x07" + bytes(7) if binary else b"")
    headers, body = rpc.encode("m", REQUEST)
    message = ModelInferRequest.FromString(body)
    assert (headers, message.model_name, [*message.raw_input_contents]) == (
        {},
        "m",
        [b"\x07" + bytes(7)] if binary else [],
    )


def test_request_is_parsed_as_the_server_parses_it() -> None:
    text = V2Client(Target("host")).encode("m", REQUEST)[1]
    assert V2Client.read_request(text).inputs[0].data.flat() == [7]
    with pytest.raises(InvalidRequest, match=r"inputs\[0\]"):
        V2Client.read_request(b'{"inputs": [1]}')


async def test_only_grpc_client_has_a_channel() -> None:
    rest, rpc = V2Client(Target("host:1")), V2Client(Target("host:1"), over_grpc=True)
    assert await rpc.channel() is await rpc.channel()
    with pytest.raises(TypeError, match="REST"):
        await rest.channel()
    await rest.aclose()
    await rpc.aclose()
