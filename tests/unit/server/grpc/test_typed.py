"""Which typed RPCs an application serves, without a port."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from inferstream import App, Application, MLModel
from inferstream.dataplane.caller import Caller
from inferstream.errors import InvalidSettings
from inferstream.server.grpc.metadata import CallMetadata
from inferstream.server.grpc.rpc import RpcFailed
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.grpc.typed import TypedServices
from inferstream.types import Headers

CALLER = Caller(Headers(()), "")


class Context:
    """A call without a client."""

    peer = ""

    def __init__(self, deadline: float | None = None) -> None:
        self.trailing: Any = ()
        self.deadline = deadline
        self.metadata = CallMetadata((("x-mark", "here"),))

    def add_trailing_metadata(self, metadata: Any) -> None:
        self.trailing = metadata


def typed(application: Application) -> TypedServices:
    return application._backend.rpcs.typed


def app_of(*names: str, service: str = "shop.Prices") -> App:
    app = App(service=service)
    for name in names:

        @app.model(name)
        async def add(a: int, b: int = 1) -> int:
            return a + b

    return app


async def test_typed_call_takes_and_returns_bytes() -> None:
    async with Application(app_of("add"), cloudevents_headers=True) as application:
        rpc = typed(application).find("/shop.Prices/PredictAdd")
        context = Context()
        assert await rpc.serve(b"\x08\x02\x10\x03", context) == b"\x08\x05"
        assert dict(context.trailing)["ce-specversion"]
        with pytest.raises(RpcFailed) as caught:
            await rpc.serve(b"\x10\x03", Context())
        assert (caught.value.code, caught.value.message) == (
            StatusCode.INVALID_ARGUMENT,
            'argument "a" is missing: field 1',
        )


async def test_client_deadline_ends_the_call() -> None:
    app = App()

    @app.model
    async def wait() -> None:
        await asyncio.wait_for(asyncio.Event().wait(), 10)

    async with Application(app) as application:
        rpc = typed(application).find("/inferstream.App/PredictWait")
        with pytest.raises(RpcFailed) as caught:
            await rpc.serve(b"", Context(deadline=asyncio.get_running_loop().time() + 0.01))
        assert caught.value.code is StatusCode.DEADLINE_EXCEEDED


async def test_apps_with_the_same_service_serve_one_rpc() -> None:
    async with Application([app_of("a"), app_of("b"), app_of("c", service="Alone")]) as application:
        services = typed(application)
        assert [*services.names] == ["Alone", "shop.Prices"]
        for path in ("/shop.Prices/PredictA", "/shop.Prices/PredictB", "/Alone/PredictC"):
            assert services.find(path) is not None
        [prices] = [pool for pool in services.pools if _has(pool, "shop.Prices")]
        assert [*prices.FindServiceByName("shop.Prices").methods_by_name] == ["PredictA", "PredictB"]


def _has(pool: Any, service: str) -> bool:
    try:
        return bool(pool.FindServiceByName(service))
    except KeyError:
        return False


async def test_duplicate_rpc_name_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with Application([app_of("my-model"), app_of("my_model")]) as application:
            services = typed(application)
            rpc = services.find("/shop.Prices/PredictMyModel")
            assert await rpc.serve(b"\x08\x02", Context()) == b"\x08\x03"
    assert "model my_model has no typed RPC: model my-model has an RPC with the same name" in caplog.text


async def test_only_the_default_version_has_a_typed_rpc() -> None:
    app = App()

    @app.model("add", version="9")
    async def old(a: int) -> int:
        return -1

    @app.model("add", version="10")
    async def new(a: str) -> str:
        return a

    async with Application(app) as application:
        rpc = typed(application).find("/inferstream.App/PredictAdd")
        assert await rpc.serve(b"\x0a\x01x", Context()) == b"\x0a\x01x"


async def test_unchanged_rpcs_are_kept_when_models_change() -> None:
    async with Application(app_of("a", "b"), allow_open_repository=True) as application:
        services = typed(application)
        before = services.find("/shop.Prices/PredictA")
        await services.find("/shop.Prices/PredictB").serve(b"\x08\x02", Context())
        await application._backend.dataplane.unload("b", CALLER)
        assert services.find("/shop.Prices/PredictB") is None
        assert services.find("/shop.Prices/PredictA") is before
        await application._backend.dataplane.load("b", CALLER)
        await services.find("/shop.Prices/PredictB").serve(b"\x08\x02", Context())
        [line] = [
            line
            for line in application.meters.exposition().decode().splitlines()
            if line.startswith("grpc_server_started_total{") and "PredictB" in line
        ]
        assert line.endswith(" 2.0")


async def test_calls_are_unavailable_until_models_load() -> None:
    application = Application(app_of("add"))
    services = typed(application)
    rpc = services.find("/shop.Prices/PredictAdd")
    with pytest.raises(RpcFailed) as caught:
        await rpc.serve(None, Context())
    assert caught.value.code is StatusCode.UNAVAILABLE
    assert services.find("/other.Service/Method") is None
    async with application:
        assert services.find("/shop.Prices/PredictAdd") is not rpc
        assert services.find("/shop.Prices/PredictOther") is None


async def test_only_functions_have_typed_rpcs() -> None:
    class Echo(MLModel):
        async def predict(self, payload: Any) -> Any:
            return payload

    async with Application(Echo) as application:
        assert [*typed(application).names] == []
        assert [*typed(application).pools] == []


@pytest.mark.parametrize(
    "service", ["", "a b", "a..b", ".a", "1a", "grpc.health.v1.Health", "inference.X", "ü.B"]
)
def test_invalid_service_name_is_refused(service: str) -> None:
    with pytest.raises(InvalidSettings, match="is no name of a gRPC service"):
        App(service=service)


async def test_refused_typed_rpc_is_in_the_audit_log(tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    async with Application(app_of("a"), audit_log=str(log)) as application:
        application._backend.rpcs.find("/shop")
        rpc = next(iter(typed(application)._rpcs.values()))
        with pytest.raises(RpcFailed):
            await rpc.serve(b"\xff", Context())  # type: ignore[arg-type]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["operation"], line["model"], line["status"]) for line in lines] == [("infer", "a", 400)]


async def test_refused_typed_stream_is_in_the_audit_log(tmp_path: Path) -> None:
    app, log = App(service="shop.Prices"), tmp_path / "audit.jsonl"

    @app.model
    async def count(n: int) -> AsyncIterator[int]:
        for each in range(n):
            yield each

    class Sent(Context):
        async def read(self) -> bytes:
            return b"\xff"

    async with Application(app, audit_log=str(log)) as application:
        rpc = typed(application).find("/shop.Prices/PredictCount")
        with pytest.raises(RpcFailed):
            await rpc.serve(None, Sent())
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["operation"], line["model"], line["status"]) for line in lines] == [
        ("stream", "count", 400)
    ]
