"""The application under any ASGI server: its lifespan, and the prefix that it is mounted at."""

from typing import Any

import orjson
import pytest

from inferstream import App, Application


def app() -> App:
    made = App()

    @made.model
    def size(text: str) -> int:
        return len(text)

    return made


async def get(application: Application, **scope: Any) -> tuple[int, Any]:
    """Status and document of a GET."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    whole = {"type": "http", "method": "GET", "headers": [], "query_string": b"", "root_path": "", **scope}
    await application.asgi(whole, receive, send)
    return sent[0]["status"], orjson.loads(sent[1]["body"])


@pytest.mark.parametrize("path", ["/models/v2/models/size", "/v2/models/size"])
async def test_prefix_may_be_in_the_path_or_not(path: str) -> None:
    async with Application(app()) as application:
        status, document = await get(application, path=path, root_path="/models")
        assert (status, document["name"]) == (200, "size")


@pytest.mark.parametrize("path", ["/proxy/models/v2/models/size", "/models/v2/models/size"])
async def test_mount_below_a_stripped_proxy_prefix(path: str) -> None:
    """As Starlette passes it on: the host's prefix is in `root_path`, and not in the path."""
    async with Application(app()) as application:
        status, document = await get(
            application, path=path, root_path="/proxy/models", app_root_path="/proxy"
        )
        assert (status, document["name"]) == (200, "size")


@pytest.mark.parametrize("path", ["/ml/v2/models/size", "/v2/models/size"])
async def test_standalone_application_below_a_prefix(path: str) -> None:
    async with Application(app(), root_path="/ml") as application:
        assert (await get(application, path=path))[0] == 200
        assert (await get(application, path=f"/mlx{path}"))[0] == 404


async def test_every_request_is_refused_before_startup() -> None:
    status, document = await get(Application(app()), path="/v2/health/live")
    assert status == 503
    assert "error" in document


async def test_lifespan_starts_and_stops_the_models() -> None:
    application = Application(app())
    received = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[str] = []

    async def receive() -> Any:
        return {"type": next(received)}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await application.asgi({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_unknown_scope_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="'ftp'"):
        await Application(app()).asgi({"type": "ftp"}, None, None)  # type: ignore[arg-type]
