"""A response says which dialect it is in, in the same words over REST and gRPC."""

import queue

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelInferResponse, ModelStreamInferResponse
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, text

STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
FLAT = {"text_input": "hi"}


def stream(server: Running, message: ModelInferRequest, *asked: str) -> tuple[str | None, list[bytes]]:
    """The dialect that the initial metadata names, and the responses as they came."""
    metadata = [("x-stream-dialect", word) for word in asked]
    with grpc.insecure_channel(server.grpc) as channel:
        method = channel.stream_stream(STREAM, request_serializer=ModelInferRequest.SerializeToString)
        call = method(iter([message]), metadata=metadata, timeout=20)
        said = dict(call.initial_metadata()).get("x-stream-dialect")
        return said, list(call)


def message(model: str = "both", raw: bool = False) -> ModelInferRequest:
    made = ModelInferRequest(model_name=model, id="i")
    tensor = made.inputs.add(name="text", datatype="BYTES", shape=[1])
    if raw:
        made.raw_input_contents.append(b"\x02\x00\x00\x00hi")
    else:
        tensor.contents.bytes_contents.append(b"hi")
    return made


@pytest.mark.parametrize(
    ("raw", "asked", "said"),
    [
        (False, [], "mlserver"),
        (True, [], "triton"),  # from a Python client, which may be Triton's
        (True, ["mlserver"], "mlserver"),
        (True, ["v2"], "mlserver"),
        (False, ["triton"], "triton"),
    ],
)
def test_grpc_stream_announces_protocol_before_first_response(
    server: Running, raw: bool, asked: list[str], said: str
) -> None:
    named, responses = stream(server, message(raw=raw), *asked)
    assert named == said
    if said == "triton":
        assert ModelStreamInferResponse.FromString(responses[0]).infer_response.id == "i"
    else:
        assert ModelInferResponse.FromString(responses[0]).id == "i"


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("grpc-node-js/1.12.0", "mlserver"),
        ("grpc-java-netty/1.70.0", "mlserver"),
        ("grpc-c++/1.70.0 grpc-c/47.0.0 (linux; chttp2)", "triton"),
        ("my-program/1.0 grpc-python/1.71.0", "triton"),
    ],
)
def test_foreign_stubs_receive_their_message_type(server: Running, agent: str, said: str) -> None:
    """The user agent is the library's own in a gRPC client, so that this one is plain HTTP/2."""
    data = message(raw=True).SerializeToString()
    frame = b"\0" + len(data).to_bytes(4, "big") + data
    headers = {"content-type": "application/grpc", "te": "trailers", "user-agent": agent}
    with httpx.Client(http1=False, http2=True, timeout=20) as client:
        answer = client.post(f"http://{server.grpc}{STREAM}", content=frame, headers=headers)
    assert answer.headers["x-stream-dialect"] == said
    kind = ModelStreamInferResponse if said == "triton" else ModelInferResponse
    length = int.from_bytes(answer.content[1:5], "big")
    found = kind.FromString(answer.content[5 : 5 + length])
    assert (found.infer_response if said == "triton" else found).id == "i"


def test_stream_failing_before_first_response_can_be_retried(server: Running) -> None:
    named, failure = None, None
    try:
        named, _ = stream(server, message("nobody"), "mlserver")
    except grpc.RpcError as error:
        failure = error
    assert failure is not None
    assert failure.code() is grpc.StatusCode.NOT_FOUND
    assert dict(failure.initial_metadata()) == {}  # metadata would commit the client to this attempt
    assert named is None


@pytest.mark.parametrize("model", ["both", "streaming"])
def test_dataplane_stub_streams_raw_contents_without_metadata(server: Running, model: str) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        ask = GRPCInferenceServiceStub(channel).ModelStreamInfer
        responses = list(ask(iter([message(model, raw=True)]), timeout=20))
    assert any(response.raw_output_contents for response in responses if response.outputs)


def test_client_without_utf8_checks_reads_reason(server: Running) -> None:
    _, responses = stream(server, message("streaming", raw=True))
    assert len(responses) > 1
    assert b"metadata x-stream-dialect: mlserver" in responses[0]
    assert not any(b"x-stream-dialect" in later for later in responses[1:])
    named = stream(server, message("streaming", raw=True), "triton")[1]
    assert [responses[0][: len(named[0])], *responses[1:]] == named


def test_tritonclient_streams_raw_tensors(server: Running) -> None:
    tensor = triton.InferInput("x", [2], "FP32")
    tensor.set_data_from_numpy(np.array([1, 2], np.float32))
    found: queue.Queue = queue.Queue()
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: found.put((result, error)))
        client.async_stream_infer("echo", [tensor])
        result, error = found.get(timeout=20)
    assert error is None
    assert result.as_numpy("x").tolist() == [1, 2]


@pytest.mark.parametrize("action", ["generate", "generate_stream"])
@pytest.mark.parametrize(
    ("body", "asked", "said"),
    [
        (text(), None, "mlserver"),
        (FLAT, None, "triton"),
        (text(), "mlserver", "mlserver"),
        (text(), "v2", "mlserver"),
        (FLAT, "triton", "triton"),
    ],
)
def test_generate_announces_protocol(
    server: Running, action: str, body: dict, asked: str | None, said: str
) -> None:
    headers = {} if asked is None else {"X-Stream-Dialect": asked}
    response = server.infer("both", body, action, headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers.get_list("x-stream-dialect") == [said]


@pytest.mark.parametrize("action", ["infer", "infer_stream"])
def test_single_protocol_routes_announce_nothing(server: Running, action: str) -> None:
    assert "x-stream-dialect" not in server.infer("both", text(), action).headers


@pytest.mark.parametrize("word", ["esperanto", "V2", "triton, v2"])
def test_unknown_protocol_is_refused(server: Running, word: str) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stream(server, message(), word)
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    for action in ("generate", "generate_stream"):
        response = server.infer("both", text(), action, headers={"X-Stream-Dialect": word})
        assert response.status_code == 400
        assert response.json()["error"] == failure.value.details()
    for known in ("x-stream-dialect", repr(word), '"mlserver"', '"v2"', '"triton"'):
        assert known in failure.value.details()
