"""Routes that hide each other."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from inferstream import App, Application, MLModel, custom_handler
from inferstream.errors import InvalidSettings
from tests.asgi import Echo


class Model(MLModel):
    @custom_handler(rest_path="/v2/health/live")
    async def hidden(self) -> int:
        return 1

    @custom_handler(rest_path="/own")
    async def own(self) -> int:
        return 2

    async def predict(self, payload: Any) -> Any: ...


def app() -> App:
    made = App()

    @made.model
    def size(text: str) -> int:
        return len(text)

    return made


async def test_route_conflicting_with_the_server_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async with Application(Model):
        pass
    hidden = [record.getMessage() for record in caplog.records if "is hidden" in record.getMessage()]
    assert len(hidden) == 1
    assert 'model Model: custom route /v2/health/live is hidden by dialect "metadata"' in hidden[0]


@pytest.mark.parametrize(
    ("before", "behind", "message"),
    [
        (
            "/models/v2/health/ready",
            "/x",
            'hides "/models/v2/health/ready" of the application mounted at "/models"',
        ),
        ("/x", "/models/other", 'the application mounted at "/models" hides the route "/models/other"'),
    ],
)
async def test_conflicting_mount_does_not_start(before: str, behind: str, message: str) -> None:
    application = Application(app())
    host = FastAPI()
    host.get(before)(lambda: 1)
    host.mount("/models", application.asgi)
    host.get(behind)(lambda: 2)
    with pytest.raises(InvalidSettings, match=message):
        async with application.lifespan(host):
            pass


async def started(host: Any, application: Application) -> None:
    async with application.lifespan(host):
        pass


def fastapi(*routes: Callable[[FastAPI, Application], object]) -> tuple[FastAPI, Application]:
    host, application = FastAPI(), Application(Echo)
    for add in routes:
        add(host, application)
    return host, application


def mount(prefix: str) -> Callable[[FastAPI, Application], object]:
    return lambda host, application: host.mount(prefix, application.asgi)


def get(path: str) -> Callable[[FastAPI, Application], object]:
    return lambda host, application: host.get(path)(lambda: None)


def included(path: str) -> Callable[[FastAPI, Application], object]:
    router = APIRouter()
    router.get(path)(lambda: None)
    return lambda host, application: host.include_router(router)


@pytest.mark.parametrize(
    "routes",
    [
        [mount("/models")],
        [get("/models"), mount("/models")],
        [mount("/models"), get("/modelsmore")],
        [get("/x")],
    ],
)
async def test_mount_without_conflicts_starts(routes: Iterable[Any]) -> None:
    await started(*fastapi(*routes))


@pytest.mark.parametrize(
    ("routes", "reason"),
    [
        ([get("/models/v2"), mount("/models")], 'route "/models/v2" hides "/models/v2" of'),
        ([get("/models/{x}/{y}"), mount("/models")], 'route "/models/{x}/{y}" hides "/models/'),
        ([included("/models/v2"), mount("/models")], 'hides "/models/v2" of'),
        ([get("/models/echo/{x}"), mount("/models")], 'hides "/models/echo/{what}" of'),
        ([mount("/models"), get("/models/mine")], 'mounted at "/models" hides the route "/models/mine"'),
        ([mount("")], 'route "/openapi.json" hides "/openapi.json" of the application mounted at "/"'),
    ],
)
async def test_conflicting_mount_names_both_routes(routes: Iterable[Any], reason: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        await started(*fastapi(*routes))
    assert reason in refused.value.message


async def test_starlette_may_mount_it_at_root() -> None:
    application = Application(Echo)
    await started(Starlette(routes=[Mount("/", application.asgi)]), application)


async def test_hidden_model_route_is_named_with_its_owner(caplog: Any) -> None:
    class Hidden(Echo):
        @custom_handler("/v2/logging")
        async def log(self) -> None: ...

        @custom_handler("/v2/models/{name}/explain")
        async def explain(self) -> None: ...

        @custom_handler("/v2/docs", rest_method="GET")
        async def docs(self) -> None: ...

    async with Application(Hidden):
        pass
    said = [record.getMessage() for record in caplog.records if "is hidden" in record.getMessage()]
    assert sorted(said) == [
        'model Hidden: custom route /v2/docs is hidden by dialect "documentation"',
        'model Hidden: custom route /v2/logging is hidden by dialect "administration"',
        'model Hidden: custom route /v2/models/{name}/explain is hidden by dialect "metadata"',
    ]
