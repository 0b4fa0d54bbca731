"""The edges that packages bring."""

from typing import Any

import pytest

from inferstream import extensions
from inferstream.dataplane.server_parts import ServerParts
from inferstream.errors import InvalidSettings
from inferstream.extensions import EDGES, OURS, Plugin
from inferstream.server.edge import Edge
from inferstream.server.edge_order import build_edges
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters


class Named(Edge):
    def __init__(self, name: str) -> None:
        self.name = name


def fails(parts: ServerParts) -> None:
    raise ValueError("no licence")


def edges_of(
    monkeypatch: pytest.MonkeyPatch, *joining: tuple[Plugin, Any], strict: bool = False
) -> list[str]:
    """The names of the edges of a server with these entries of plug-ins."""
    monkeypatch.setattr(extensions, "loaded", lambda *_: iter(joining))
    edges = build_edges(ServerParts(Settings(strict=strict), Meters()))
    return [getattr(edge, "name", type(edge).__name__) for edge in edges]


def entry(name: str, make: Any = None, package: str = "p", **place: str) -> tuple[Plugin, Any]:
    return Plugin(package, EDGES, name, "m:x", "e", **place), make or (lambda _: Named(name))


def test_edges_that_are_on_stand_at_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    joining = [
        entry("a"),
        entry("off", lambda _: None),
        entry("inner", inside="request_ids"),
        entry("b", outside="nowhere"),
        entry("next", outside="a"),
    ]
    assert edges_of(monkeypatch, *joining) == ["inner", "IdentifiedRpcs", "a", "next", "b"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [(fails, "ValueError: no licence"), (lambda _: "edge", "it returned a str, not an Edge")],
)
def test_an_edge_that_fails_is_left_out_or_ends_a_strict_start(
    monkeypatch: pytest.MonkeyPatch, make: Any, reason: str
) -> None:
    assert edges_of(monkeypatch, entry("bad", make), entry("b")) == ["IdentifiedRpcs", "b"]
    with pytest.raises(InvalidSettings) as refused:
        edges_of(monkeypatch, entry("bad", make), strict=True)
    assert reason in refused.value.message


def test_an_error_of_ours_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no licence"):
        edges_of(monkeypatch, entry("bad", fails, package=OURS))
