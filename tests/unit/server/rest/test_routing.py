"""The dialects of a server: its own, those of packages, and what is left out."""

from typing import Any

import pytest

from inferstream.dataplane.access import Action
from inferstream.errors import InvalidSettings
from inferstream.extensions import DIALECTS, OURS, Plugin
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
        monkeypatch.setattr(routing, "loaded", lambda group, strict: joining)
        return routing.build_routes(None, Settings(strict=strict), Meters())  # type: ignore[arg-type]

    return build


def names(routes: Routes) -> list[str]:
    return [dialect.name for dialect in routes.dialects if dialect.name not in core()]


def core() -> list[str]:
    return [kind.name for kind in routing.CORE]


def test_dialects_join_behind_those_of_the_core_and_know_each_other(build: Any) -> None:
    routes = build(Joined)
    assert [dialect.name for dialect in routes.dialects] == [*core(), "joined"]
    assert isinstance(routes.of_path("/joined", "GET"), ReadRoute)
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
def test_one_that_cannot_be_used_is_left_out_or_ends_a_strict_start(
    build: Any, kind: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert names(build(Joined, kind)) == ["joined"]
    with pytest.raises(InvalidSettings) as refused:
        build(Joined, kind, strict=True)
    assert reason in refused.value.message
    assert "package p" in refused.value.message


def test_an_error_of_ours_is_raised(build: Any) -> None:
    with pytest.raises(ValueError, match="no licence"):
        build(Broken, package=OURS)


def test_a_door_is_no_dialect_and_no_fault(build: Any, caplog: pytest.LogCaptureFixture) -> None:
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
def test_the_action_of_a_request_is_that_of_its_route(path: str, method: str, action: Action | None) -> None:
    assert build_action_finder(Settings())(path, method) is action
