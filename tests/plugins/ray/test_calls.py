"""RPCs as Serve calls them in a replica, with a context that has no more than Serve's."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from inferstream import App, Application, InferenceRequest
from inferstream.ext.rpc import ModelInferRequestConverter, ModelInferResponse, RpcFailed
from inferstream.plugins.ray.calls import RayRpcs
from inferstream.types import RequestInput

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
WATCH = "/grpc.health.v1.Health/Watch"


class ContextOfServe:
    def __init__(self) -> None:
        self.code = self.details = None
        self.trailing: list[tuple[str, str | bytes]] = []

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return [("x-mine", "1")]

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5"

    def peer_identities(self) -> list[bytes] | None:
        return None

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        self.details = details

    def set_trailing_metadata(self, metadata: list[tuple[str, str | bytes]]) -> None:
        self.trailing = metadata


app = App()


@app.model
async def double(number: int) -> int:
    return 2 * number


@app.model
async def count(number: int) -> AsyncIterator[int]:
    try:
        for each in range(number):
            yield each
    finally:
        Ends.seen.append(number)


class Ends:
    seen: list[int] = []


@pytest.fixture
async def rpcs() -> AsyncIterator[RayRpcs]:
    Ends.seen = []
    async with Application(app) as application:
        yield RayRpcs(application.grpc_services())


def request(model: str, number: int) -> bytes:
    tensor = RequestInput(name="number", datatype="INT64", shape=[1], data=[number])
    message = ModelInferRequestConverter.from_types(InferenceRequest(inputs=[tensor]), model)
    sent: bytes = message.SerializeToString()
    return sent


async def stream_of(*messages: bytes) -> AsyncIterator[bytes]:
    for each in messages:
        yield each


async def test_unary_rpc(rpcs: RayRpcs) -> None:
    sent = await rpcs.find_callable(INFER)(request("double", 4), ContextOfServe())
    response = ModelInferResponse.FromString(sent.SerializeToString())
    assert list(response.outputs[0].contents.int64_contents) == [8]
    assert type(sent.SerializeToString()) is bytes


async def test_error_has_status_and_raises(rpcs: RayRpcs) -> None:
    context = ContextOfServe()
    with pytest.raises(RpcFailed):
        await rpcs.find_callable(INFER)(request("nobody", 4), context)
    assert context.code is grpc.StatusCode.NOT_FOUND
    assert context.details.startswith("Model nobody not found")


async def test_client_stream(rpcs: RayRpcs) -> None:
    responses = await rpcs.find_callable(STREAM)(stream_of(request("count", 3)), ContextOfServe())
    read = [ModelInferResponse.FromString(each.SerializeToString()) async for each in responses]
    assert [list(each.outputs[0].contents.int64_contents) for each in read] == [[0], [1], [2]]


async def test_unread_stream_applies_backpressure_and_ends_with_reader(rpcs: RayRpcs) -> None:
    responses = await rpcs.find_callable(STREAM)(stream_of(request("count", 10**9)), ContextOfServe())
    await anext(responses)
    assert Ends.seen == []
    await responses.aclose()
    assert Ends.seen == [10**9]
    assert not len(rpcs._streams)


async def test_initial_metadata_is_sent_as_trailing_metadata(rpcs: RayRpcs) -> None:
    context = ContextOfServe()
    _ = [each async for each in await rpcs.find_callable(STREAM)(stream_of(request("count", 1)), context)]
    assert ("x-stream-dialect", "mlserver") in context.trailing


async def test_server_stream_has_one_request_and_ends_with_replica(rpcs: RayRpcs) -> None:
    responses = await rpcs.find_callable(WATCH)(b"", ContextOfServe())
    await anext(responses)
    rpcs.end()
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(responses), 30)


async def test_typed_unary_rpc_is_handled_as_stream(rpcs: RayRpcs) -> None:
    responses = await rpcs.find_callable("/inferstream.App/PredictDouble")(
        stream_of(b"\x08\x05"), ContextOfServe()
    )
    assert [each.SerializeToString() async for each in responses] == [b"\x08\x0a"]


async def test_typed_rpc_without_model_is_unimplemented(rpcs: RayRpcs) -> None:
    context = ContextOfServe()
    responses = await rpcs.find_callable("/inferstream.App/PredictNothing")(stream_of(), context)
    with pytest.raises(RpcFailed):
        await anext(responses)
    assert (context.code, context.details) == (
        grpc.StatusCode.UNIMPLEMENTED,
        'There is no RPC "/inferstream.App/PredictNothing".',
    )
