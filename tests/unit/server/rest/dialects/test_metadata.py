import httpx
import pytest

from inferstream import Application
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.dataplane import DataPlane
from inferstream.errors import ModelNotFound
from inferstream.server.rest.dialects.base import ReadRoute
from inferstream.server.rest.dialects.metadata import Metadata
from inferstream.server.rest.dialects.v2 import V2
from inferstream.server.rest.routes import Routes
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters
from inferstream.types import Headers, MetadataModelResponse

NOBODY = Caller(Headers([]), "http")


class Echoing(DataPlane):
    """Knows every model, and says of each which name and version were asked for."""

    def __init__(self) -> None:
        pass

    async def model_metadata(self, name: str, version: str | None = None) -> MetadataModelResponse:
        return MetadataModelResponse(name=f"{name}@{version}", platform="")

    def model_ready(self, name: str, version: str | None = None) -> bool:
        raise ModelNotFound(f"{name}@{version}")


@pytest.fixture
def routes() -> Routes:
    return Routes([dialect(Echoing(), Settings(), Meters()) for dialect in (Metadata, V2)])


def read(routes: Routes, path: str) -> ReadRoute:
    found = routes.find_route(f"/v2/models/{path}")
    assert isinstance(found, ReadRoute)
    return found


@pytest.mark.parametrize(
    ("path", "asked", "template"),
    [
        ("m", "m@None", "/v2/models/{name}"),
        ("m/versions/1", "m@1", "/v2/models/{name}/versions/{version}"),
        ("a/b", "a/b@None", "/v2/models/{name}"),
        ("docs", "docs@None", "/v2/models/{name}"),
        ("stream", "stream@None", "/v2/models/{name}"),
        ("ready", "ready@None", "/v2/models/{name}"),
        ("versions/1", "versions/1@None", "/v2/models/{name}"),
        ("m/versions/", "m/versions/@None", "/v2/models/{name}"),
        ("m/versions/1/b", "m/versions/1/b@None", "/v2/models/{name}"),
        ("m/versions/1/versions/2", "m/versions/1@2", "/v2/models/{name}/versions/{version}"),
        ("", "@None", "/v2/models/{name}"),
    ],
)
async def test_metadata_of_models_named_like_routes(
    routes: Routes, path: str, asked: str, template: str
) -> None:
    found = read(routes, path)
    assert found.path == template
    assert f'"name":"{asked}"'.encode() in (await found.claim.respond(found, NOBODY, {}))[2]


@pytest.mark.parametrize(
    ("path", "asked"),
    [("m/ready", "m@None"), ("ready/ready", "ready@None"), ("a/versions/1/ready", "a@1")],
)
async def test_model_readiness(routes: Routes, path: str, asked: str) -> None:
    found = read(routes, path)
    assert found.path.endswith("/ready")
    with pytest.raises(ModelNotFound, match=asked):
        await found.claim.respond(found, NOBODY, {})


@pytest.mark.parametrize("path", ["/docs", "/v2/other"])
def test_unknown_paths_have_no_route(routes: Routes, path: str) -> None:
    assert routes.find_route(path) is None


@pytest.mark.parametrize("page", [True, False])
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v2",
        "/v2/health/live",
        "/v2/health/ready",
        "/health",
        "/v2/models/stats",
        "/v1/models",
        "/openapi.json",
    ],
)
async def test_head_matches_status_and_headers_of_get(path: str, page: bool) -> None:
    async with Application([], page=page) as application:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            head, got = await client.head(path), await client.get(path)
    assert head.status_code == got.status_code
    assert {**head.headers, "date": ""} == {**got.headers, "date": ""}
