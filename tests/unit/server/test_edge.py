"""The edges that packages bring."""

from typing import Any

import pytest

from inferstream.server import edge as edge_module
from inferstream.server.edge import edges_of
from inferstream.settings import Settings


class Named:
    """An edge that writes its name around what it wraps; its own factory."""

    def __init__(self, name: str, on: bool = True) -> None:
        self.name = name
        self.on = on

    def edge(self, settings: Settings) -> "Named | None":
        return self if self.on else None


def test_edges_that_are_on_come_in_the_order_of_their_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = [Named("a"), Named("off", on=False), object(), Named("b")]
    monkeypatch.setattr(edge_module, "loaded", lambda *_: [("", stage) for stage in stages])
    edges: Any = edges_of(Settings())
    assert [edge.name for edge in edges] == ["a", "b"]
