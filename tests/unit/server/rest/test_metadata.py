import pytest

from inferstream.dataplane.dataplane import DataPlane
from inferstream.errors import ModelNotFound
from inferstream.server.rest.metadata import MetadataRoutes
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters
from inferstream.types import MetadataModelResponse


class Echoing(DataPlane):
    """Knows every model, and says of each which name and version were asked for."""

    def __init__(self) -> None:
        pass

    async def model_metadata(self, name: str, version: str | None = None) -> MetadataModelResponse:
        return MetadataModelResponse(name=f"{name}@{version}", platform="")

    def model_ready(self, name: str, version: str | None = None) -> bool:
        raise ModelNotFound(f"{name}@{version}")


@pytest.fixture
def vitals() -> MetadataRoutes:
    return MetadataRoutes(Echoing(), Settings(), Meters())


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
async def test_metadata_of_names_that_look_like_routes(
    vitals: MetadataRoutes, path: str, asked: str, template: str
) -> None:
    found = vitals.find(f"/v2/models/{path}")
    assert found.path == template
    assert f'"name":"{asked}"'.encode() in (await found.ask())[1]


@pytest.mark.parametrize(
    ("path", "asked"),
    [("m/ready", "m@None"), ("ready/ready", "ready@None"), ("a/versions/1/ready", "a@1")],
)
async def test_readiness_of_a_model(vitals: MetadataRoutes, path: str, asked: str) -> None:
    found = vitals.find(f"/v2/models/{path}")
    assert found.path.endswith("/ready")
    with pytest.raises(ModelNotFound, match=asked):
        await found.ask()


@pytest.mark.parametrize(
    "path", ["/docs", "/v2/models/m/docs", "/v2/models/m/stream", "/v2/other", "/v2/models"]
)
def test_everything_else_is_elsewhere(vitals: MetadataRoutes, path: str) -> None:
    assert vitals.find(path) is None
