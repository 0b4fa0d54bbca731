"""Models of functions: their values without tensors, and classes made of functions."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from inferstream import App, testing
from inferstream.dataplane.caller import Caller
from inferstream.protos.dataplane_pb2 import ModelInferRequest, ModelInferResponse
from inferstream.server.grpc.inference import InferenceService
from inferstream.server.grpc.metadata import CallMetadata
from inferstream.types import Headers, InferenceRequest, RequestInput
from inferstream.types.forms import InputsForm


def add(a: int, b: int = 1) -> int:
    return a + b


async def form_of(app: App, **settings: Any) -> InputsForm | None:
    async with testing.run(app, **settings) as client:
        return client.application.models.admit("add", None, Caller(Headers(()), "")).pipeline.form


async def test_tensor_stages_disable_direct_arguments() -> None:
    app = App()
    app.model(add)
    assert await form_of(app) is not None

    cached = App()
    cached.model(cache_enabled=True)(add)
    assert await form_of(cached) is not None  # the server has no cache
    assert await form_of(cached, cache_enabled=True) is None

    seen: list[InferenceRequest] = []
    guarded = App()
    guarded.model(add)

    @guarded.middleware
    async def middleware(call: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        seen.append(call.request)
        return await call_next(call)

    assert await form_of(guarded) is None


class Rpc:
    """The context of an RPC without metadata."""

    deadline = None
    peer = ""
    metadata = CallMetadata(())

    def time_remaining(self) -> None:
        return None

    def add_trailing_metadata(self, metadata: object) -> None: ...


TERMS = {"a": 2, "b": 3}


V2 = {
    "inputs": [
        {"name": name, "shape": [1], "datatype": "INT64", "data": [value]} for name, value in TERMS.items()
    ]
}


@pytest.mark.parametrize(
    ("path", "body", "result"),
    [
        ("infer", V2, lambda found: found["outputs"][0]["data"]),
        ("generate", TERMS, lambda found: [found["output"]]),
    ],
)
async def test_rest_passes_values_directly_without_tensors(
    path: str, body: Any, result: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App()
    app.model(add)
    async with testing.run(app) as client:
        transport = httpx.ASGITransport(client.application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            expected = await http.post(f"/v2/models/add/{path}", json=body)
            monkeypatch.setattr(RequestInput, "of", None)
            response = await http.post(f"/v2/models/add/{path}", json=body)
    assert (response.status_code, expected.status_code) == (200, 200)
    assert result(response.json()) == [5]


async def test_grpc_passes_values_directly_without_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()
    app.model(add)
    monkeypatch.setattr(RequestInput, "of", None)
    async with testing.run(app) as client:
        service = InferenceService(client.application._backend.dataplane)
        tensors = [
            ModelInferRequest.InferInputTensor(
                name=name, shape=[1], datatype="INT64", contents={"int64_contents": [value]}
            )
            for name, value in TERMS.items()
        ]
        message = await service.ModelInfer(ModelInferRequest(model_name="add", inputs=tensors), Rpc())
    assert ModelInferResponse.FromString(message).outputs[0].contents.int64_contents == [5]
