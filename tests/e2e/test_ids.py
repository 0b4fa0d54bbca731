"""Ids of requests: the longest comes back as it was sent, over every transport; others are refused."""

import json
from collections.abc import Callable

import grpc
import pytest
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelStreamInferResponse
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, text

LONGEST = ("é🙂 x" * 256)[:1024]
TOO_LONG = LONGEST + "y"

Ids = set[str]


class Refused(Exception):
    """What the server said against a request."""


def rest(server: Running, id: str) -> Ids:
    return {_accepted(server.infer("both", text(id=id))).json()["id"]}


def flat(server: Running, id: str) -> Ids:
    return {_accepted(server.infer("both", {"text_input": "hi", "id": id}, "generate")).json()["id"]}


def events(server: Running, id: str) -> Ids:
    stream = _accepted(server.infer("streaming", text(id=id), "infer_stream")).text
    return {json.loads(event.removeprefix("data: "))["id"] for event in stream.split("\n\n")[:-1]}


def websocket(server: Running, id: str) -> Ids:
    with connect(
        f"{server.url.replace('http', 'ws', 1)}/v2/models/streaming/stream", open_timeout=20
    ) as socket:
        socket.send(json.dumps(text(id=id)))
        found = set()
        while True:
            response = json.loads(socket.recv(timeout=20))
            if "error" in response:
                assert response["code"] == "invalid"
                raise Refused(response["error"])
            found.add(response["id"])
            if response["parameters"]["triton_final_response"]:
                return found


def unary(server: Running, id: str) -> Ids:
    return _called(server, lambda stub: {stub.ModelInfer(_message("both", id), timeout=20).id})


def stream(server: Running, id: str) -> Ids:
    request = [_message("streaming", id)]
    return _called(
        server, lambda stub: {each.id for each in stub.ModelStreamInfer(iter(request), timeout=20)}
    )


def tritons(server: Running, id: str) -> Ids:
    with grpc.insecure_channel(server.grpc) as channel:
        method = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            ModelInferRequest.SerializeToString,
            ModelStreamInferResponse.FromString,
        )
        metadata = [("x-stream-dialect", "triton")]
        responses = list(method(iter([_message("streaming", id)]), metadata=metadata, timeout=20))
    for response in responses:
        if response.error_message:
            raise Refused(response.error_message)
    return {response.infer_response.id for response in responses}


def _accepted(response):
    if response.status_code != 200:
        assert response.status_code == 400
        raise Refused(response.json()["error"])
    return response


def _called(server: Running, call: Callable[[GRPCInferenceServiceStub], Ids]) -> Ids:
    with grpc.insecure_channel(server.grpc) as channel:
        try:
            return call(GRPCInferenceServiceStub(channel))
        except grpc.RpcError as error:
            raise Refused(
                error.details() if error.code() is grpc.StatusCode.INVALID_ARGUMENT else error
            ) from error


def _message(model: str, id: str) -> ModelInferRequest:
    made = ModelInferRequest(model_name=model, id=id)
    made.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"hi")
    return made


TRANSPORTS = [rest, flat, events, websocket, unary, stream, tritons]


@pytest.mark.parametrize("ask", TRANSPORTS)
@pytest.mark.parametrize("id", ["a\nb", "\x1b[2J", "\0", "a\u202eb"])
def test_ids_with_control_characters_are_refused(
    server: Running, ask: Callable[[Running, str], Ids], id: str
) -> None:
    with pytest.raises(Refused, match=r"^id must be printable characters$"):
        ask(server, id)


@pytest.mark.parametrize("ask", TRANSPORTS)
def test_ids_over_every_transport(server: Running, ask: Callable[[Running, str], Ids]) -> None:
    assert ask(server, LONGEST) == {LONGEST}
    with pytest.raises(Refused, match=r"^id 'é🙂 x.* has 1025 characters, at most 1024 are allowed$"):
        ask(server, TOO_LONG)
