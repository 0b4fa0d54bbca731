"""MLServer's dialect: a stream is of one model, whose calls read its requests in order."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from inferstream import Application, InferenceRequest, MLModel
from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelInferResponse
from inferstream.server.grpc.dialects.mlserver import MLServerDialect
from inferstream.server.grpc.rpc import RpcFailed
from inferstream.server.grpc.statuses import StatusCode
from inferstream.telemetry.access import AccessRecord
from inferstream.types import Headers

from ..first_requests import first_of
from ..test_rpc import Context

STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


class Echo(MLModel):
    """Answers each request with its id and its number."""

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        async for payload in payloads:
            number = payload.inputs[0].data.flat()[0]
            if number < 0:
                raise ValueError("secret")
            yield f"{payload.id} {number}"


class Sent(Context):
    """A call whose initial metadata counts among what is written."""

    async def send_initial_metadata(self, metadata: Any) -> None:
        self.written.append(dict(metadata))


def request(number: int, id: str = "", model: str = "Echo") -> bytes:
    message = ModelInferRequest(model_name=model, id=id)
    tensor = message.inputs.add(name="x", datatype="INT64", shape=[1])
    tensor.contents.int64_contents.append(number)
    return message.SerializeToString()


async def served(*messages: bytes) -> tuple[list[Any], StatusCode]:
    """What a stream of these requests gets, and the status of its end."""
    context = Sent(*messages)
    code, message = StatusCode.OK, ""
    async with Application(Echo) as application:
        rpc = application._backend.rpcs.find(STREAM)
        assert rpc is not None
        try:
            await rpc.serve(None, context)
        except RpcFailed as failed:
            code, message = failed.code, failed.message
    assert "secret" not in message
    return context.written, code


def texts(written: list[Any]) -> list[str]:
    responses = [ModelInferResponse.FromString(each) for each in written if isinstance(each, bytes)]
    return [response.outputs[0].contents.bytes_contents[0].decode() for response in responses]


async def test_later_requests_belong_to_the_same_call() -> None:
    written, code = await served(request(1, "a"), request(2, "other"), request(3))
    assert written[0] == {"x-stream-dialect": "mlserver"}
    assert (texts(written), code) == (["a 1", "other 2", "a 3"], StatusCode.OK)


async def test_failure_ends_the_stream_after_its_responses() -> None:
    written, code = await served(request(1, "a"), request(-1))
    assert (texts(written), code) == (["a 1"], StatusCode.INTERNAL)


async def test_call_failing_immediately_sends_no_metadata_so_clients_can_retry() -> None:
    written, code = await served(request(1, model="nobody"))
    assert (written, code) == ([], StatusCode.NOT_FOUND)


@pytest.mark.parametrize(("parameter", "certain"), [("content_type", True), ("other", False)])
def test_content_type_identifies_mlserver_clients(parameter: str, certain: bool) -> None:
    message: Any = ModelInferRequest()
    message.inputs.add(name="x").parameters[parameter].string_param = "np"
    assert MLServerDialect.is_certain(first_of(message), Headers(())) is certain


async def test_unreadable_first_request_is_in_the_access_log() -> None:
    records: list[AccessRecord] = []
    wrong = ModelInferRequest(model_name="Echo", raw_input_contents=[b"a", b"b"])
    async with Application(Echo) as application:
        application._backend.dataplane.lines.add(records.append)
        rpc = application._backend.rpcs.find(STREAM)
        assert rpc is not None
        with pytest.raises(RpcFailed):
            await rpc.serve(None, Sent(wrong.SerializeToString()))
    assert [(each.operation, each.model, each.status) for each in records] == [("stream", "Echo", "invalid")]
