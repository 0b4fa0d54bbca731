"""The edge that a stage of a package brings."""

from types import SimpleNamespace
from typing import Any

import pytest

from inferstream.plugins import STAGES, Plugin
from inferstream.server import edge
from inferstream.settings import Settings


@pytest.mark.parametrize(
    ("edges", "first"),
    [([], None), ([None], None), (["none", "a", "b"], "a")],
)
def test_the_first_edge_that_is_on_sees_the_bytes(
    monkeypatch: pytest.MonkeyPatch, edges: list[Any], first: str | None
) -> None:
    def stage(name: str | None) -> Any:
        if name is None:
            return SimpleNamespace()  # a stage without an edge
        return SimpleNamespace(edge=lambda settings: None if name == "none" else (name, settings))

    stages = [(Plugin("p", STAGES, str(name), "m:x"), stage(name)) for name in edges]
    monkeypatch.setattr(edge, "loaded", lambda group, strict: stages if group == STAGES else [])
    settings = Settings()
    assert edge.edge_of(settings) == (None if first is None else (first, settings))
