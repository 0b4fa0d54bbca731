"""An authority that sets no `key` is asked wherever the one with keys is."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio
from fastapi import Request

from inferstream import App, MLModel, ModelSettings, custom_handler
from inferstream.dataplane.access import Action, Authority
from inferstream.dataplane.caller import Caller
from inferstream.errors import PermissionDenied
from inferstream.plugins.kafka.messages import admit_record
from inferstream.server import backend
from inferstream.server.application import Application
from inferstream.server.grpc.rpc import RpcFailed
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.rest.websocket import WebSocketDoor
from inferstream.types import Headers

from .test_actions import Context

one_loop = pytest.mark.asyncio(loop_scope="module")

app = App()


@app.model
async def words(prompt: str) -> AsyncIterator[str]:
    for word in prompt.split():
        yield word


@app.model
async def hidden(prompt: str) -> str:
    return prompt


class Routed(MLModel):
    @custom_handler("/own/route", "GET")
    async def own(self, request: Request) -> list[str]:
        return [*request.headers.keys()]


class Guard(Authority):
    """Refuses streams, and one model, to everybody. The header `x-secret` is for no model."""

    def check(self, action: Action, caller: Caller, model: str | None = None) -> None:
        super().check(action, caller, model)
        if action is Action.STREAM or model == "hidden":
            raise PermissionDenied("guarded")

    def split(self, raw: Iterable[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        pairs = [*raw]
        return [pair for pair in pairs if pair[0] not in (b"x-secret", "x-secret")], ()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded() -> AsyncIterator[Application]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "build_authority", lambda settings, **_: Guard(settings, embedded=True))
        application = Application(
            [app, ModelSettings(name="routed", implementation=Routed)], allow_open_repository=True
        )
    async with application:
        yield application


@pytest_asyncio.fixture(loop_scope="module")
async def client(guarded: Application) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(guarded.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


@one_loop
@pytest.mark.parametrize(
    ("path", "document", "whole"),
    [
        ("/v1/completions", {"model": "words", "prompt": "a b", "stream": True}, {"stream": False}),
        ("/v1/responses", {"model": "words", "input": "a b", "stream": True}, {"stream": False}),
        ("/api/generate", {"model": "words", "prompt": "a b"}, {"stream": False}),
    ],
)
async def test_stream_requested_in_body_is_refused(
    client: httpx.AsyncClient, path: str, document: dict[str, Any], whole: dict[str, Any]
) -> None:
    refused = await client.post(path, json=document)
    assert (refused.status_code, "guarded" in refused.text) == (403, True), refused.text
    response = await client.post(path, json=document | whole)
    assert response.status_code == 200, response.text


@one_loop
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/models/words/infer_stream"),
        ("POST", "/rpc/stream/words"),
        ("POST", "/v2/models/hidden/infer"),
    ],
)
async def test_guarded_path_is_refused(client: httpx.AsyncClient, method: str, path: str) -> None:
    assert "guarded" in (await client.request(method, path, json={})).text


@one_loop
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/repository/index"),
        ("GET", "/v2/models"),
        ("GET", "/v1/models"),
        ("GET", "/proto/inferstream.proto"),
    ],
)
async def test_lists_omit_refused_models(client: httpx.AsyncClient, method: str, path: str) -> None:
    response = await client.request(method, path)
    assert response.status_code == 200
    assert "words" in response.text.lower()
    assert "hidden" not in response.text.lower()


@one_loop
async def test_errors_do_not_name_other_models(client: httpx.AsyncClient) -> None:
    response = await client.get("/v2/models/absent")
    assert response.status_code == 404
    assert "words" not in response.text


@one_loop
async def test_custom_route_gets_no_credentials(client: httpx.AsyncClient) -> None:
    response = await client.get("/own/route", headers={"x-secret": "1", "x-other": "1"})
    assert "x-other" in response.text
    assert "x-secret" not in response.text


@one_loop
async def test_websocket_and_kafka_message_are_refused(guarded: Application) -> None:
    door = WebSocketDoor(guarded._backend.dataplane, guarded.settings, guarded.meters)
    with pytest.raises(PermissionDenied):
        door.open(None, "/v2/models/words/stream", [], None)  # type: ignore[arg-type]

    class Record(NamedTuple):
        value: bytes = b"{}"
        key: bytes | None = None
        headers: tuple[tuple[str, bytes], ...] = (("mlserver-model", b"hidden"),)

    with pytest.raises(PermissionDenied):
        admit_record(Record(), guarded._backend.dataplane.admit)
    caller = Caller(Headers(()), "v2")
    assert {name for name, _ in guarded._backend.dataplane.models(caller)} == {"words", "routed"}


@one_loop
@pytest.mark.parametrize("rpc", ["ModelStreamInfer", "PredictWords"])
async def test_grpc_stream_is_refused(guarded: Application, rpc: str) -> None:
    guarded._backend.rpcs.find("/inferstream")  # takes over the typed RPCs
    rpcs = {**guarded._backend.rpcs._rpcs, **guarded._backend.rpcs.typed._rpcs}
    (served,) = (served for path, served in rpcs.items() if path.endswith(f"/{rpc}"))
    with pytest.raises(RpcFailed) as failed:
        await served.serve(None, Context())
    assert (failed.value.code, failed.value.message) == (StatusCode.PERMISSION_DENIED, "guarded")
