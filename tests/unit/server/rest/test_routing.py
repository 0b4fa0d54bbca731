"""The dialects of a server: its own, those of packages, and what is left out."""

from typing import Any

import pytest

from inferstream.dataplane.access import Action
from inferstream.errors import InvalidSettings
from inferstream.extensions.entries import DIALECTS, OURS, Plugin
from inferstream.server.door import Door
from inferstream.server.rest import routing
from inferstream.server.rest.dialects.base import Answer, HttpDialect, ReadClaim, ReadRoute
from inferstream.server.rest.routes import Routes
from inferstream.server.rest.routing import build_action_finder
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters


async def nothing(*_: object) -> Answer:
    return 200, [], b""


class Joined(HttpDialect):
    name = "joined"
    path = "/joined"

    def reads(self) -> list[ReadClaim]:
        return [ReadClaim(self.path, Action.PAGE, nothing)]


class Second(Joined):
    name = "second"


class Broken(Joined):
    name = "broken"

    def __init__(self, *_: Any) -> None:
        raise ValueError("no licence")


class NoPort(Door):
    """What a server has beside its ports."""


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Any:
    def build(*kinds: object, package: str = "p", strict: bool = False) -> Routes:
        joining = [(Plugin(package, DIALECTS, str(kind), "m:x"), kind) for kind in kinds]
        monkeypatch.setattr(routing, "load_group", lambda group, strict: joining)
        return routing.build_routes(None, Settings(strict=strict), Meters())  # type: ignore[arg-type]

    return build


def names(routes: Routes) -> list[str]:
    return [dialect.name for dialect in routes.dialects if dialect.name not in core()]


def core() -> list[str]:
    return [kind.name for kind in routing.CORE]


def test_plugin_dialects_follow_core_dialects_and_see_each_other(build: Any) -> None:
    routes = build(Joined)
    assert [dialect.name for dialect in routes.dialects] == [*core(), "joined"]
    assert isinstance(routes.find_route("/joined", "GET"), ReadRoute)
    assert all([each.name for each in dialect.siblings] == [*core(), "joined"] for dialect in routes.dialects)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Second, 'The dialects "joined" and "second" both claim /joined.'),
        (Broken, "ValueError: no licence"),
        (dict, "it is not a subclass of HttpDialect or Door"),
        (5, "it is not a subclass of HttpDialect or Door"),
    ],
)
def test_unusable_dialect_is_skipped_or_prevents_strict_startup(
    build: Any, kind: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert names(build(Joined, kind)) == ["joined"]
    with pytest.raises(InvalidSettings) as refused:
        build(Joined, kind, strict=True)
    assert reason in refused.value.message
    assert "package p" in refused.value.message


def test_builtin_dialect_error_is_raised(build: Any) -> None:
    with pytest.raises(ValueError, match="no licence"):
        build(Broken, package=OURS)


def test_transport_is_not_a_dialect_and_not_an_error(build: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert names(build(NoPort, strict=True)) == []


@pytest.mark.parametrize(
    ("path", "method", "action"),
    [
        ("/v2/models/m/infer", "POST", Action.INFER),
        ("/v2/models/m/infer_stream", "POST", Action.STREAM),
        ("/v2/health/live", "GET", Action.HEALTH),
        ("/nowhere", "GET", None),
    ],
)
def test_request_action_follows_its_route(path: str, method: str, action: Action | None) -> None:
    assert build_action_finder(Settings())(path, method) is action
