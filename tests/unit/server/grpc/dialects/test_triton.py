"""Triton's dialect: each request of a stream is a call of its own, and an error is a response."""

from typing import Any

import pytest

from inferstream import App, Application
from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelStreamInferResponse
from inferstream.server.grpc.dialects.triton import FINAL, WANTS_EMPTY_FINAL, TritonDialect
from inferstream.server.grpc.metadata import CallMetadata
from inferstream.server.grpc.rpc import RpcFailed
from inferstream.server.grpc.statuses import StatusCode
from inferstream.telemetry.access import AccessRecord
from inferstream.types import Headers

from ..first_requests import first_of
from ..test_rpc import Context, app
from .test_mlserver import STREAM


class Asking(Context):
    """A client that names the dialect."""

    def __init__(self, *messages: Any, **metadata: str) -> None:
        super().__init__(*messages)
        self.metadata = CallMetadata((("x-stream-dialect", "triton"), *metadata.items()))


def request(text: str, id: str, model: str = "size", **parameters: bool) -> bytes:
    message = ModelInferRequest(model_name=model, id=id)
    for name, value in parameters.items():
        message.parameters[name].bool_param = value
    tensor = message.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text.encode())
    return message.SerializeToString()


async def served(*messages: bytes, apps: App | None = None, **metadata: str) -> list[tuple[str, bool, str]]:
    """Id, whether it is final, and error of each response."""
    context = Asking(*messages, **metadata)
    async with Application(apps or app()) as application:
        rpc = application._backend.rpcs.find(STREAM)
        assert rpc is not None
        await rpc.serve(None, context)
    responses = [ModelStreamInferResponse.FromString(each) for each in context.written]
    return [
        (each.infer_response.id, each.infer_response.parameters[FINAL].bool_param, each.error_message)
        for each in responses
    ]


async def test_each_request_has_a_response_in_its_order() -> None:
    assert await served(request("ab", "1"), request("c", "2"), request("", "3")) == [
        ("1", True, ""),
        ("2", True, ""),
        ("3", True, ""),
    ]


async def test_an_error_is_a_response_and_the_stream_goes_on() -> None:
    first, second, third = await served(request("a", "1"), request("a", "2", "nobody"), request("a", "3"))
    assert (first, third) == (("1", True, ""), ("3", True, ""))
    assert second[:2] == ("2", True)
    assert "nobody not found" in second[2]


async def test_a_client_may_want_an_error_to_end_the_stream() -> None:
    with pytest.raises(RpcFailed) as failed:
        await served(request("a", "1", "nobody"), request("a", "2"), triton_grpc_error="true")
    assert failed.value.code is StatusCode.NOT_FOUND


@pytest.mark.parametrize(("wanted", "empty"), [({WANTS_EMPTY_FINAL: True}, [("1", True, "")]), ({}, [])])
async def test_a_model_that_streams_has_a_last_response_where_it_is_wanted(
    wanted: dict[str, bool], empty: list[Any]
) -> None:
    found = await served(request("a b", "1", "words", **wanted))
    assert found == [("1", False, ""), ("1", False, ""), *empty]


async def test_a_parameter_that_is_reserved_is_refused() -> None:
    [(_, _, error)] = await served(request("a", "1", triton_other=True))
    assert error == 'parameter "triton_other" is reserved'


@pytest.mark.parametrize(("model", "operation"), [("size", "infer"), ("words", "stream")])
async def test_each_refusal_is_in_the_access_log_once(model: str, operation: str) -> None:
    records: list[AccessRecord] = []
    wrong = ModelInferRequest(model_name=model)
    wrong.inputs.add(name="text", datatype="BYTES", shape=[1]).parameters[
        "shared_memory_region"
    ].int64_param = 1
    sent = (
        request("a", "1", model, triton_other=True),
        wrong.SerializeToString(),
        request("a", "2", "nobody"),
    )
    async with Application(app()) as application:
        application._backend.dataplane.lines.add(records.append)
        rpc = application._backend.rpcs.find(STREAM)
        assert rpc is not None
        await rpc.serve(None, Asking(*sent))
    assert len(records) == 3
    assert {(each.model, each.operation, each.status) for each in records} == {
        ("nobody", "stream", "not_found"),
        (model, "stream", "invalid"),
        (model, operation, "unsupported"),
    }


def test_its_marks_are_its_parameters_and_its_metadata() -> None:
    marked: Any = ModelInferRequest()
    marked.parameters["triton_x"].bool_param = True
    assert TritonDialect.is_certain(first_of(marked), Headers(()))
    fatal = Headers([("triton_grpc_error", "true")])
    assert TritonDialect.is_certain(first_of(ModelInferRequest()), fatal)
    hinted: Any = ModelInferRequest()
    hinted.outputs.add(name="y").parameters["classification"].int64_param = 1
    assert not TritonDialect.is_certain(first_of(hinted), Headers(()))
    assert TritonDialect.is_likely(first_of(hinted), Headers(()))
