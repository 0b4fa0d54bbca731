"""Which models may call which: circles, and what a model calls in all."""

from typing import Any

import pytest

from inferstream.dataplane.edges import CallEdges, Callee
from inferstream.errors import ModelLoadFailed, ModelNotFound


class Load:
    """One load of a model, in the place of its execution."""


async def nowhere(name: str) -> Callee:
    raise ModelNotFound(name)


class Graph(CallEdges):
    def load(self, name: str, *callees: str, version: str | None = None) -> Any:
        load: Any = Load()
        self.add((name, version), callees, load)
        return load


@pytest.fixture
def graph() -> Graph:
    return Graph(nowhere)


def test_cycle_of_three_models_names_its_path(graph: Graph) -> None:
    graph.load("a", "b")
    graph.load("b", "other", "c", version="2")
    with pytest.raises(ModelLoadFailed, match="Model c did not load: c calls a calls b calls c, and no call"):
        graph.load("c", "a")


def test_model_calling_itself_is_a_cycle(graph: Graph) -> None:
    with pytest.raises(ModelLoadFailed, match="a calls a"):
        graph.load("a", "a")


def test_two_paths_to_one_model_are_not_a_cycle(graph: Graph) -> None:
    a = graph.load("a", "b", "c")
    graph.load("b", "d")
    graph.load("c", "d")
    assert graph.calls(a) == {"b": {"d": {}}, "c": {"d": {}}}


def test_finished_load_closes_no_cycle(graph: Graph) -> None:
    graph.remove(graph.load("a", "b"))
    assert graph.calls(graph.load("b", "a")) == {"a": {}}


def test_failed_reload_keeps_edges_of_serving_model(graph: Graph) -> None:
    serving = graph.load("a", "b")
    graph.remove(graph.load("a", "c"))
    assert graph.calls(serving) == {"b": {}}
    with pytest.raises(ModelLoadFailed, match="b calls a calls b"):
        graph.load("b", "a")
