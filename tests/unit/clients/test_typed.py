"""Calls of typed RPCs."""

import pytest

from inferstream import App, AsyncClient
from inferstream.clients.transport import ModelName, OutgoingCall, Target
from inferstream.clients.typed import TypedTransport
from inferstream.errors import CallFailed
from inferstream.types import InferenceRequest

app = App(service="shop.Prices")


@app.model
def double(n: int) -> int:
    return 2 * n


@pytest.mark.parametrize("streams", [False, True])
async def test_unknown_app_model_is_not_found(streams: bool) -> None:
    transport = TypedTransport(Target("127.0.0.1:1"), app)
    call = OutgoingCall(ModelName("triple"), InferenceRequest(inputs=[]))
    with pytest.raises(CallFailed, match='no typed RPC for the model "triple"') as caught:
        await (anext(transport.stream(call)) if streams else transport.infer(call))
    assert caught.value.status == 404


async def test_rpc_is_named_by_its_app() -> None:
    async with AsyncClient.over_typed_rpcs("grpc://127.0.0.1:1", app, retries=0) as client:
        messages = client._transport._messages["double"]  # type: ignore[attr-defined]
        assert messages.method.path == "/shop.Prices/PredictDouble"
