"""Malformed gRPC: every fault has its status, names its culprit, and leaves the server alive."""

import asyncio
import time

import grpc
import pytest

from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelStreamInferResponse
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.engines import EVERY_ENGINE
from tests.serving import Running, eventually

pytestmark = EVERY_ENGINE

Code = grpc.StatusCode


@pytest.fixture(scope="module")
def stub(server: Running):
    with grpc.insecure_channel(server.grpc) as channel:
        yield GRPCInferenceServiceStub(channel)


def request(*inputs: dict, model: str = "echo", raw: list[bytes] = (), **more) -> ModelInferRequest:
    return ModelInferRequest(model_name=model, inputs=inputs, raw_input_contents=raw, **more)


def typed(datatype: str = "FP32", shape=(1,), name: str = "x", **contents) -> dict:
    return {"name": name, "datatype": datatype, "shape": shape, "contents": contents}


def bare(datatype: str = "FP32", shape=(1,), name: str = "x") -> dict:
    return {"name": name, "datatype": datatype, "shape": shape}


FLOAT = b"\x00\x00\x80\x3f"
INVALID = {
    "raw too long": request(bare(), raw=[FLOAT * 2]),
    "raw too short": request(bare(shape=[2]), raw=[FLOAT]),
    "raw is no multiple": request(bare(), raw=[b"abc"]),
    "raw and contents": request(typed(fp32_contents=[1]), raw=[FLOAT]),
    "one raw for two": request(bare(), bare(name="y"), raw=[FLOAT]),
    "three raw for two": request(bare(), bare(name="y"), raw=[FLOAT] * 3),
    "no contents": request(bare()),
    "wrong field": request(typed(int_contents=[1])),
    "two fields": request(typed(fp32_contents=[1], int_contents=[1])),
    "negative shape": request(typed(shape=[-1], fp32_contents=[1])),
    "overflowing shape": request(typed(shape=[2**32, 2**32], fp32_contents=[1])),
    "unknown datatype": request(typed("FP31", fp32_contents=[1])),
    "empty datatype": request(typed("", fp32_contents=[1])),
    "too many values": request(typed(fp32_contents=[1, 2])),
    "300 in INT8": request(typed("INT8", int_contents=[300])),
    "BYTES overrun": request(bare("BYTES"), raw=[b"\xe8\x03\x00\x00ab"]),
    "BYTES huge": request(bare("BYTES"), raw=[b"\xff\xff\xff\xff"]),
    "BYTES stub": request(bare("BYTES"), raw=[b"\x01\x00"]),
    "BYTES rest": request(bare("BYTES"), raw=[b"\x01\x00\x00\x00ab"]),
    "BYTES stub for no values": request(bare("BYTES", [0]), raw=[b"\x01\x00"]),
    "BYTES huge for no values": request(bare("BYTES", [0, 2]), raw=[b"\xff\xff\xff\xff"]),
    "FP16 typed": request(typed("FP16", fp32_contents=[1])),
    "BF16 typed": request(typed("BF16", fp32_contents=[1])),
    "duplicate inputs": request(typed(fp32_contents=[1]), typed(fp32_contents=[1])),
    "raw BOOL of 2": request(bare("BOOL"), raw=[b"\x02"]),
    "missing input": request(model="strict"),
    "unknown output": request(typed(fp32_contents=[1]), outputs=[{"name": "y"}]),
}


@pytest.mark.parametrize("case", INVALID)
def test_a_malformed_request_is_invalid_argument(server: Running, stub, case: str) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stub.ModelInfer(INVALID[case], timeout=10)

    assert failure.value.code() is Code.INVALID_ARGUMENT, failure.value
    assert failure.value.details()
    server.probe()


def test_garbage_is_invalid_argument_without_a_traceback(server: Running) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as failure:
            call(b"\xff\xff\xff garbage", timeout=10)
    assert failure.value.code() in (Code.INVALID_ARGUMENT, Code.INTERNAL)
    assert "Traceback" not in failure.value.details()
    server.probe()


def test_a_message_over_the_limit_is_resource_exhausted(server: Running, stub) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stub.ModelInfer(request(bare(shape=[2 * 2**20]), raw=[FLOAT * (2 * 2**20)]), timeout=10)
    assert failure.value.code() is Code.RESOURCE_EXHAUSTED
    server.probe()


def test_deadline_cancels_call_and_model(server: Running, stub) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stub.ModelInfer(
            request(model="slow", id="late", parameters={"seconds": {"int64_param": 60}}), timeout=2
        )
    assert failure.value.code() is Code.DEADLINE_EXCEEDED
    eventually(lambda: server.noted("finally late"))


def test_cancelled_call_cancels_model(server: Running, stub) -> None:
    call = stub.ModelInfer.future(
        request(model="slow", id="gone", parameters={"seconds": {"int64_param": 60}})
    )
    eventually(lambda: server.noted("start gone"))
    call.cancel()
    eventually(lambda: server.noted("finally gone"))


def test_an_empty_stream_is_ok_and_empty(stub) -> None:
    assert list(stub.ModelStreamInfer(iter(()), timeout=10)) == []


def test_an_unknown_method_is_unimplemented(server: Running) -> None:
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
        channel.unary_unary("/inference.GRPCInferenceService/Nothing")(b"", timeout=10)
    assert failure.value.code() is Code.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("model", "mode", "code"),
    [("failing", "value", Code.INTERNAL), ("failing", "exit", Code.INTERNAL), ("nobody", "", Code.NOT_FOUND)],
)
def test_failures_have_status_and_leak_no_details(server: Running, stub, model, mode, code) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        stub.ModelInfer(request(model=model, parameters={"mode": {"string_param": mode}}), timeout=10)
    assert failure.value.code() is code
    assert "canary" not in failure.value.details()
    server.probe()


def triton_stream(server: Running, messages, **metadata) -> list:
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            request_serializer=ModelInferRequest.SerializeToString,
            response_deserializer=ModelStreamInferResponse.FromString,
        )
        return list(call(iter(messages), timeout=20, metadata=tuple(metadata.items())))


def test_stream_mixes_models_and_reports_errors_in_band(server: Running) -> None:
    messages = [
        request(bare(), raw=[FLOAT], id="1"),
        request(model="nobody", id="2"),
        request(model="both", id="3"),
        request(bare(), raw=[b"abc"], id="4"),
        request(bare(), raw=[FLOAT], id="5"),
    ]

    answers = triton_stream(server, messages, **{"x-stream-dialect": "triton"})

    by_id = {answer.infer_response.id: answer for answer in answers}
    assert set(by_id) == {"1", "2", "3", "4", "5"}
    assert "not found" in by_id["2"].error_message
    assert by_id["4"].error_message
    assert by_id["5"].infer_response.raw_output_contents == [FLOAT]
    assert all("triton_final_response" in answer.infer_response.parameters for answer in answers)


def test_unknown_triton_parameter_is_an_in_band_error(server: Running) -> None:
    [answer] = triton_stream(
        server, [request(bare(), raw=[FLOAT], parameters={"triton_x": {"bool_param": True}})]
    )
    assert "triton_x" in answer.error_message


def test_triton_grpc_error_ends_stream_at_first_error(server: Running) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        triton_stream(server, [request(model="nobody")], triton_grpc_error="true")
    assert failure.value.code() is Code.NOT_FOUND


def test_empty_final_response_is_sent_on_request(server: Running) -> None:
    asked = request(
        model="streaming", id="e", parameters={"triton_enable_empty_final_response": {"bool_param": True}}
    )
    answers = [answer.infer_response for answer in triton_stream(server, [asked])]
    assert [answer.parameters["triton_final_response"].bool_param for answer in answers] == [
        False,
        False,
        False,
        True,
    ]
    assert not answers[-1].outputs


@pytest.mark.parametrize(("asked", "kind"), [("triton", 1), ("mlserver", 0)])
def test_metadata_selects_protocol(server: Running, asked: str, kind: int) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            request_serializer=ModelInferRequest.SerializeToString,
        )
        first = next(
            call(iter([request(model="both", id="d")]), metadata=(("x-stream-dialect", asked),), timeout=10)
        )
    if kind:
        assert ModelStreamInferResponse.FromString(first).infer_response.id == "d"
    else:
        assert b"both" in first[:8]


def test_unread_responses_are_bounded(server: Running) -> None:
    before = server.rss()

    async def flood() -> None:
        async with grpc.aio.insecure_channel(server.grpc) as channel:
            stream = GRPCInferenceServiceStub(channel).ModelStreamInfer(
                metadata=(("x-stream-dialect", "triton"),)
            )
            message = request(bare(shape=[1000]), raw=[FLOAT * 1000])

            async def write() -> None:
                for _ in range(10_000):
                    await stream.write(message)

            try:
                await asyncio.wait_for(write(), 3)
            except TimeoutError:
                pass
            stream.cancel()

    asyncio.run(flood())

    assert server.rss() - before < 64 * 2**20
    server.probe()


def test_server_survives_rapid_resets(server: Running) -> None:
    # On a connection of its own: channels to one address share theirs, and other tests are no part of this.
    alone = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.grpc, options=alone) as channel:
        stub = GRPCInferenceServiceStub(channel)
        until = time.monotonic() + 3
        while time.monotonic() < until:
            call = stub.ModelInfer.future(request(model="slow", parameters={"seconds": {"int64_param": 60}}))
            call.cancel()
        server.probe()
        # The library itself refuses some calls, as CANCELLED, while more than a thousand wait to be looked at.
        eventually(lambda: _answers_steadily(stub))


def _answers_steadily(stub: GRPCInferenceServiceStub) -> bool:
    from inferstream.protos.dataplane_pb2 import ServerLiveRequest

    try:
        return all(stub.ServerLive(ServerLiveRequest(), timeout=5).live for _ in range(30))
    except grpc.RpcError:
        return False


def test_kserve_load_reads_name_from_field_one(server: Running) -> None:
    from inferstream.protos.dataplane_pb2 import RepositoryModelLoadRequest

    with grpc.insecure_channel(server.grpc) as channel:
        answer = GRPCInferenceServiceStub(channel).RepositoryModelLoad(
            RepositoryModelLoadRequest(repository_name="both"), timeout=20
        )
    assert answer.isLoaded
    assert answer.model_name == "both"


def test_load_with_code_is_refused(server: Running) -> None:
    from inferstream.protos.dataplane_pb2 import RepositoryModelLoadRequest

    asked = RepositoryModelLoadRequest(model_name="both", parameters={"config": {"string_param": "{}"}})
    with grpc.insecure_channel(server.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
        GRPCInferenceServiceStub(channel).RepositoryModelLoad(asked, timeout=20)
    assert failure.value.code() is Code.INVALID_ARGUMENT
