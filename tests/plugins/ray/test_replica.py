"""A replica, as Serve calls it, with the stop of Ray in the test's hands."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from inferstream import App
from inferstream.errors import CallFailed, InvalidSettings, ModelNotFound, ModelNotReady
from inferstream.plugins.kubernetes.load import Loads
from inferstream.plugins.ray import replica as module
from inferstream.plugins.ray.replica import Replica

app = App()


@app.model
async def double(number: int) -> int:
    return 2 * number


@app.model
async def endless(number: int) -> AsyncIterator[int]:
    try:
        while True:
            yield number
            await asyncio.sleep(0)
    finally:
        Ends.count += 1


class Ends:
    count = 0


class Ray:
    """Ray's end of a replica: what it would call when it stops the replica."""

    stop: Callable[[float], Awaitable[None]]


@pytest.fixture
def ray(monkeypatch) -> Ray:
    ray = Ray()
    monkeypatch.setattr(module, "on_stop", lambda act: setattr(ray, "stop", act))
    monkeypatch.setattr(module.Numbers, "start", lambda _: None)
    monkeypatch.setattr(module, "LAST_WORDS", 0)
    Ends.count = 0
    return ray


@pytest.fixture
async def replica(ray: Ray) -> AsyncIterator[Replica]:
    replica = Replica(app, {"shutdown_grace": 0.0})
    await replica.__serve_build_asgi_app__()
    async with replica._application:
        yield replica


def client(replica: Replica) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(replica._ingress)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60)


async def test_rest(replica: Replica) -> None:
    async with client(replica) as asking:
        response = await asking.post("/v2/models/double/generate", json={"number": 3})
    assert response.json()["output"] == 6


async def test_rpc_is_found_by_path_and_other_attributes_are_missing(replica: Replica) -> None:
    assert callable(getattr(replica, "/inference.GRPCInferenceService/ModelInfer"))
    assert not hasattr(replica, "record_routing_stats")


async def test_ray_shutdown_ends_streams_with_event_and_runs_finally(replica: Replica, ray: Ray) -> None:
    async with client(replica) as asking:
        stream = asyncio.create_task(asking.post("/v2/models/endless/generate_stream", json={"number": 1}))
        load = replica._application.models.of(Loads)
        while not (await load.current()).total.running:
            await asyncio.sleep(0)
        await ray.stop(60.0)
        text = (await stream).text
    assert text.rstrip().endswith('data: {"error":"The server is shutting down."}')
    assert Ends.count == 1


async def test_calls_are_served_until_grace_period_ends(ray: Ray) -> None:
    replica = Replica(app, {"shutdown_grace": 3600.0})
    await replica.__serve_build_asgi_app__()
    async with replica._application:
        stopping = asyncio.create_task(ray.stop(1e6))
        await asyncio.sleep(0)
        async with client(replica) as asking:
            assert (await asking.post("/v2/models/double/generate", json={"number": 3})).status_code == 200
            assert (await asking.get("/v2/health/ready")).status_code == 503
        await replica.check_health()  # Ray would replace a replica that it stops anyway
        stopping.cancel()


async def test_shorter_ray_timeout_overrides_grace_period(ray: Ray) -> None:
    replica = Replica(app, {"shutdown_grace": 3600.0})
    await replica.__serve_build_asgi_app__()
    async with replica._application:
        await asyncio.wait_for(ray.stop(1.0), 60)
        with pytest.raises(CallFailed, match="shutting down"):
            await replica._application.predict("double", number=3)


async def test_idle_websocket_ends_with_replica(replica: Replica, ray: Ray) -> None:
    sent: asyncio.Queue[dict] = asyncio.Queue()
    received: asyncio.Queue[dict] = asyncio.Queue()
    received.put_nowait({"type": "websocket.connect"})
    scope = {
        "type": "websocket",
        "path": "/v2/models/double/stream",
        "headers": [],
        "subprotocols": [],
        "query_string": b"",
    }
    socket = asyncio.create_task(replica._ingress(scope, received.get, sent.put))
    assert (await sent.get())["type"] == "websocket.accept"
    await ray.stop(60.0)
    await asyncio.wait_for(socket, 30)
    assert sent.get_nowait() == {"type": "websocket.close", "code": 1001}


async def test_health(replica: Replica) -> None:
    await replica.check_health()


async def test_model_load_failure_makes_replica_unhealthy(ray: Ray, tmp_path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model-settings.json").write_text('{"name": "bad", "implementation": "no.Model"}')
    replica = Replica(str(tmp_path), {})
    async with replica._application:
        with pytest.raises(ModelNotReady, match="bad"):
            await replica.check_health()


async def test_stats_have_load_names(replica: Replica) -> None:
    assert await replica.record_autoscaling_stats() == {
        "waiting": 0.0,
        "running": 0.0,
        "utilization": 0.0,
        "kv_usage": 0.0,
    }


async def test_user_config_selects_models(replica: Replica) -> None:
    application = replica._application
    await replica.reconfigure({"models": ["double"]})
    assert application.loaded == [("double", None)]
    await replica.check_health()
    await replica.reconfigure({"models": ["double", "endless"]})
    assert application.loaded == [("double", None), ("endless", None)]


async def test_unknown_model_changes_nothing(replica: Replica) -> None:
    with pytest.raises(ModelNotFound):
        await replica.reconfigure({"models": ["other"]})
    assert len(replica._application.loaded) == 2


@pytest.mark.parametrize("config", [[], {}, {"models": "double"}, {"models": [1]}, {"models": [], "more": 1}])
async def test_invalid_user_config_is_refused(replica: Replica, config) -> None:
    with pytest.raises(InvalidSettings) as raised:
        await replica.reconfigure(config)
    assert raised.value.message.endswith(f'is {{"models": [names of models that serve]}}, not {config!r}')
