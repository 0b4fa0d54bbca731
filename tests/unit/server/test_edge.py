"""The edges that packages bring."""

from typing import Any

import pytest

from inferstream.dataplane.server_parts import ServerParts
from inferstream.errors import InvalidSettings
from inferstream.extensions import loading
from inferstream.extensions.entries import EDGES, OURS, Plugin
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
    monkeypatch.setattr(loading, "load_group", lambda *_: iter(joining))
    monkeypatch.setattr(loading, "plugins", lambda _: {plugin.name: plugin for plugin, _ in joining})
    edges = build_edges(ServerParts(Settings(strict=strict), Meters()))
    return [getattr(edge, "name", type(edge).__name__) for edge in edges]


def entry(name: str, make: Any = None, package: str = "p", **place: str) -> tuple[Plugin, Any]:
    return Plugin(package, EDGES, name, "m:x", "e", **place), make or (lambda _: Named(name))


def test_active_edges_have_fixed_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    joining = [
        entry("a"),
        entry("off", lambda _: None),
        entry("inner", inside="request_ids"),
        entry("b"),
        entry("next", outside="a"),
    ]
    assert edges_of(monkeypatch, *joining) == ["inner", "IdentifiedRpcs", "a", "next", "b"]


def test_edge_next_to_unknown_edge_is_skipped_or_prevents_strict_startup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joining = [entry("a"), entry("b", outside="nowhere")]
    assert edges_of(monkeypatch, *joining) == ["IdentifiedRpcs", "a"]
    with pytest.raises(
        InvalidSettings, match='next to "nowhere", which does not exist; available: request_ids, a'
    ):
        edges_of(monkeypatch, *joining, strict=True)


@pytest.mark.parametrize(
    ("make", "reason"),
    [(fails, "ValueError: no licence"), (lambda _: "edge", "it returned a str, not an Edge")],
)
def test_failing_edge_is_skipped_or_prevents_strict_startup(
    monkeypatch: pytest.MonkeyPatch, make: Any, reason: str
) -> None:
    assert edges_of(monkeypatch, entry("bad", make), entry("b")) == ["IdentifiedRpcs", "b"]
    with pytest.raises(InvalidSettings) as refused:
        edges_of(monkeypatch, entry("bad", make), strict=True)
    assert reason in refused.value.message


def test_builtin_edge_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no licence"):
        edges_of(monkeypatch, entry("bad", fails, package=OURS))
