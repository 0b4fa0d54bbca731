"""Every route, RPC and message asks whether its caller may do what it stands for: a matrix out of the routes."""

import hashlib
import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio

from inferstream import App, MLModel, ModelSettings, custom_handler
from inferstream.dataplane.access import Action, Authority, build_authority
from inferstream.dataplane.caller import Caller
from inferstream.errors import InferstreamError, PermissionDenied
from inferstream.plugins.kafka.messages import admit_record
from inferstream.plugins.keys.principal import BYTES
from inferstream.plugins.page.files import page_files
from inferstream.server.application import Application
from inferstream.server.grpc.metadata import CallMetadata
from inferstream.server.grpc.rpc import RpcFailed
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.rest.dialects.base import ReadRoute, Route
from inferstream.server.rest.routing import build_routes
from inferstream.server.rest.server import build_metrics_service
from inferstream.server.rest.websocket import WebSocketDoor
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters
from inferstream.types import Headers

one_loop = pytest.mark.asyncio(loop_scope="module")

app = App()


@app.model
def double(n: int) -> int:
    return 2 * n


@app.model
async def count(n: int) -> AsyncIterator[int]:
    for each in range(n):
        yield each


class Routed(MLModel):
    @custom_handler("/own/route", "GET")
    async def own(self) -> dict[str, int]:
        return {}


MODELS = [app, ModelSettings(name="routed", implementation=Routed)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def closed_to_all() -> AsyncIterator[tuple[Application, list[Action]]]:
    """What `closed` gives, once: nobody gets far enough to change something."""
    asked: list[Action] = []

    def check(action: Action, caller: Caller, model: str | None = None) -> None:
        assert isinstance(caller, Caller)
        asked.append(action)
        if not action.is_open:
            raise PermissionDenied("closed")

    async with Application(MODELS) as application:
        application._backend.access.check = check  # type: ignore[method-assign]
        yield application, asked


@pytest.fixture
def closed(closed_to_all: tuple[Application, list[Action]]) -> tuple[Application, list[Action]]:
    """An application that is open for health alone, and the operations that were asked for."""
    closed_to_all[1].clear()
    return closed_to_all


OPEN = {
    "/health": Action.HEALTH,
    "/ping": Action.HEALTH,
    "/v2/health/live": Action.HEALTH,
    "/v2/health/ready": Action.HEALTH,
    "/v2/models/double/ready": Action.HEALTH,
    "/": Action.PAGE,
    "/docs": Action.PAGE,
    "/v2/docs": Action.PAGE,
    "/v2/models/double/docs": Action.PAGE,
    "/inferstream.js": Action.PAGE,
    **{f"/page/{name}": Action.PAGE for name in page_files()},
}


def every_route() -> list[tuple[str, str]]:
    routes = build_routes(None, Settings(), Meters())  # type: ignore[arg-type]
    claims = list(routes.claims)
    for dialect in routes.dialects:
        claims += [(method, item.path) for item in dialect.reads() for method in item.methods or ("GET",)]
        inferences = getattr(dialect, "inferences", ())
        claims += [(method, path) for path in inferences for method in dialect.methods]  # type: ignore[attr-defined]
    return sorted({(method, re.sub(r"\{.*?\}", "double", path)) for method, path in claims})


ROUTES = [*every_route(), ("GET", "/own/route")]


@one_loop
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_http_route_is_authorized(closed: Any, method: str, path: str) -> None:
    application, asked = closed
    transport = httpx.ASGITransport(application.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.request(method, path, headers={"accept": "text/html"})
    assert asked, "nothing has asked for this route"
    if method in ("GET", "HEAD") and path in OPEN:
        assert asked == [OPEN[path]]
        assert response.status_code == 200
    elif path.startswith(("/rpc/stream", "/jsonrpc/stream", "/rpc", "/jsonrpc")):
        assert "closed" in response.text
    else:
        assert response.status_code == 403, response.text


class Context:
    deadline = None
    peer = ""
    identities = ()

    metadata = CallMetadata(())

    async def read(self) -> bytes:
        return b""

    async def write(self, message: bytes) -> None: ...
    async def send_initial_metadata(self, metadata: Any) -> None: ...
    def add_trailing_metadata(self, metadata: Any) -> None: ...


def actions_of(application: Application) -> dict[str, Action]:
    """The operation of each RPC that is not typed, by its path."""
    return {
        f"/{name}/{method}": action
        for service in application._backend.rpcs.services
        for name in service.names
        for method, action in service.actions.items()
    }


@one_loop
async def test_every_rpc_is_authorized(closed: Any) -> None:
    application, asked = closed
    application._backend.rpcs.find("/inferstream")  # takes over the typed RPCs
    rpcs = [*application._backend.rpcs._rpcs.values(), *application._backend.rpcs.typed._rpcs.values()]
    assert len(rpcs) > 20
    actions = actions_of(application)
    for rpc in rpcs:
        asked.clear()
        if actions.get(rpc.path) is Action.HEALTH:
            continue
        streams = rpc.client_streams or rpc.server_streams
        with pytest.raises(RpcFailed) as failed:
            await rpc.serve(None if streams else b"", Context())
        assert failed.value.code is StatusCode.PERMISSION_DENIED, rpc.path
        assert asked, f"nothing has asked for {rpc.path}"


@one_loop
async def test_websocket_kafka_message_and_metrics_port_are_authorized(closed: Any) -> None:
    application, asked = closed
    door = WebSocketDoor(application._backend.dataplane, application.settings, application.meters)
    with pytest.raises(PermissionDenied):
        door.open(None, "/v2/models/double/stream", [], None)  # type: ignore[arg-type]

    class Record(NamedTuple):
        value: bytes = b"{}"
        key: bytes | None = None
        headers: tuple[tuple[str, bytes], ...] = (("mlserver-model", b"double"),)

    with pytest.raises(PermissionDenied):
        admit_record(Record(), application.models.admit)
    service = build_metrics_service(application.meters, application.settings, application._backend.dataplane)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(service.app), base_url="http://localhost"
    ) as client:
        assert (await client.get("/metrics")).status_code == 403
    assert asked == [Action.STREAM, Action.INFER, Action.METRICS]


def test_inference_path_distinguishes_streaming() -> None:
    routes = build_routes(None, Settings(), Meters())  # type: ignore[arg-type]
    found = {
        path: route.action
        for path in ("/v2/models/m/infer", "/v2/models/m/infer_stream", "/v1/chat/completions", "/rpc")
        if isinstance(route := routes.find_route(path, "POST"), Route)
    }
    assert [*found.values()] == [Action.INFER, Action.STREAM, Action.INFER, Action.INFER]
    assert isinstance(routes.find_route("/v2/models/m", "GET"), ReadRoute)


KEYS = {id: f"ifs_{id}_{secrets.token_urlsafe(32)}" for id in ("right", "scopeless", "expired", "unlisted")}

CALLERS = {
    "none": ({}, 401),
    "wrong": ({"authorization": f"Bearer {KEYS['unlisted']}"}, 401),
    "expired": ({"authorization": f"Bearer {KEYS['expired']}"}, 401),
    "without scope": ({"authorization": f"Bearer {KEYS['scopeless']}"}, 403),
    "right": ({"x-api-key": KEYS["right"]}, None),
}
"""Headers, and the status of the refusal; None for none."""


def entry(id: str, scopes: list[str], **more: object) -> dict[str, object]:
    digest = hashlib.sha256(KEYS[id].encode()).hexdigest()
    return {"id": id, "principal": id, "sha256": digest, "scopes": scopes, "models": ["*"], **more}


@asynccontextmanager
async def keyed() -> AsyncIterator[tuple[Application, list[Action]]]:
    """An application with keys, and the operations that were asked for."""
    every = [*{action.scope for action in Action.list_all() if action.scope is not None}]
    entries = [
        entry("right", every),
        entry("scopeless", []),
        entry("expired", every, expires="2020-01-01T00:00:00Z"),
    ]
    asked: list[Action] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFERSTREAM_KEYS", json.dumps({"version": 1, "keys": entries}))
        application = Application(MODELS, sse_heartbeat=0.01)
    async with application:
        check = application._backend.access.check

        def noted(action: Action, caller: Caller, model: str | None = None) -> None:
            asked.append(action)
            check(action, caller, model)

        application._backend.access.check = noted  # type: ignore[method-assign]
        yield application, asked


@pytest_asyncio.fixture(loop_scope="module")
async def guarded() -> AsyncIterator[tuple[Application, list[Action]]]:
    async with keyed() as guarded:
        yield guarded


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def refusing() -> AsyncIterator[tuple[Application, list[Action]]]:
    """One application for all whose keys are not right: they change nothing."""
    async with keyed() as refusing:
        yield refusing


@one_loop
@pytest.mark.parametrize("who", [who for who in CALLERS if who != "right"])
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_http_route_refuses_wrong_keys(refusing: Any, method: str, path: str, who: str) -> None:
    refusing[1].clear()
    await ask(refusing, method, path, who)


@one_loop
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_http_route_accepts_the_right_key(guarded: Any, method: str, path: str) -> None:
    if path == "/v2/access":
        pytest.skip("it never ends")
    await ask(guarded, method, path, "right")


async def ask(guarded: tuple[Application, list[Action]], method: str, path: str, who: str) -> None:
    application, asked = guarded
    headers, refusal = CALLERS[who]
    transport = httpx.ASGITransport(application.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.request(method, path, headers={"accept": "text/html", **headers})
    scopes = [action.scope for action in asked]
    if method in ("GET", "HEAD") and path in OPEN:
        assert response.status_code == 200
    elif refusal is None or (who == "without scope" and not any(scopes)):
        assert response.status_code not in (401, 403), response.text
    else:
        assert response.status_code == refusal, response.text
        assert ("www-authenticate" in response.headers) is (refusal == 401)
    assert not any(key in response.text for key in KEYS.values())


@one_loop
@pytest.mark.parametrize("who", CALLERS)
async def test_every_rpc_with_each_kind_of_key(guarded: Any, who: str) -> None:
    application, _ = guarded
    headers, refusal = CALLERS[who]
    expected = {
        401: [StatusCode.UNAUTHENTICATED],
        403: [StatusCode.PERMISSION_DENIED],
        None: [each for each in StatusCode if each.name not in ("UNAUTHENTICATED", "PERMISSION_DENIED")],
    }[refusal]

    class Keyed(Context):
        metadata = CallMetadata(tuple(headers.items()))

        async def read(self) -> None:  # type: ignore[override]
            return None

    application._backend.rpcs.find("/inferstream")  # takes over the typed RPCs
    actions = actions_of(application)
    for rpc in [*application._backend.rpcs._rpcs.values(), *application._backend.rpcs.typed._rpcs.values()]:
        action = actions.get(rpc.path, Action.INFER)
        if action is Action.HEALTH or (who == "without scope" and action.scope is None):
            continue
        code = StatusCode.OK
        try:
            await rpc.serve(None if rpc.client_streams or rpc.server_streams else b"", Keyed())
        except RpcFailed as failed:
            code = failed.code
        assert code in expected, rpc.path


@one_loop
async def test_kafka_record_has_its_key_in_a_header(guarded: Any) -> None:
    application, _ = guarded

    class Record(NamedTuple):
        headers: tuple[tuple[str, bytes], ...]
        value: bytes = b'{"inputs":[{"name":"n","datatype":"INT64","shape":[1],"data":[1]}]}'
        key: bytes | None = None

    model = ("mlserver-model", b"double")
    for headers, refusal in CALLERS.values():
        record = Record((model, *((name, value.encode()) for name, value in headers.items())))
        if refusal is None:
            admission = admit_record(record, application.models.admit)
            assert admission.caller.principal == "right"
            continue
        with pytest.raises(InferstreamError) as refused:
            admit_record(record, application.models.admit)
        assert refused.value.code.value == ("unauthenticated" if refusal == 401 else "permission_denied")


def test_every_operation_has_a_scope_or_needs_none() -> None:
    needed = {action.name: action.scope for action in Action.list_all() if not action.is_open}
    assert {name for name, scope in needed.items() if scope is None} == {
        *("cancel", "resume", "server_metadata", "model_metadata"),
    }
    assert list(dict.fromkeys(filter(None, needed.values()))) == [
        *("infer", "stream", "repository", "metrics", "docs", "access"),
    ]


async def test_unregistered_operation_is_refused() -> None:
    new = [
        Action("new", scope=None),
        Action("free", scope=None, is_open=True),
        Action("infer", scope="infer"),
    ]
    caller = Caller(Headers([(b"x-api-key", KEYS["right"].encode())]), "v2")
    async with keyed() as (application, _):
        for access in (
            Authority(Settings()),
            Authority(Settings(host="0.0.0.0")),
            application._backend.access,
        ):
            access.check(Action.INFER, caller)
            for action in new:
                with pytest.raises(PermissionDenied, match=f'operation "{action.name}" is not registered'):
                    access.check(action, caller)


def test_no_caller_is_authenticated_without_keys() -> None:
    assert type(build_authority(Settings())) is Authority


@one_loop
async def test_custom_route_response_counts_toward_its_key(guarded: Any) -> None:
    application, _ = guarded
    transport = httpx.ASGITransport(application.asgi)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.get("/own/route", headers={"x-api-key": KEYS["right"]})
    quotas = application._backend.access.keys.quotas
    quotas.tick()
    assert response.status_code == 200
    assert sum(use.own[BYTES] for use in quotas._uses if use.key == "right") == len(response.content) > 0
