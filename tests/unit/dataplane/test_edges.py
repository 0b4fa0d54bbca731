"""Which models may call which: circles, and what a model calls in all."""

import pytest

from inferstream.dataplane.edges import CallEdges, Callee
from inferstream.errors import ModelLoadFailed, ModelNotFound


async def nowhere(name: str) -> Callee:
    raise ModelNotFound(name)


@pytest.fixture
def edges() -> CallEdges:
    return CallEdges(nowhere)


def test_a_circle_of_three_names_its_way(edges: CallEdges) -> None:
    edges.add(("a", None), ("b",))
    edges.add(("b", "2"), ("other", "c"))
    with pytest.raises(ModelLoadFailed, match="Model c did not load: c calls a calls b calls c, and no call"):
        edges.add(("c", None), ("a",))
    assert edges.calls(("c", None)) == {}


def test_a_model_that_calls_itself_is_a_circle(edges: CallEdges) -> None:
    with pytest.raises(ModelLoadFailed, match="a calls a"):
        edges.add(("a", None), ("a",))


def test_two_ways_to_one_model_are_no_circle(edges: CallEdges) -> None:
    edges.add(("a", None), ("b", "c"))
    edges.add(("b", None), ("d",))
    edges.add(("c", None), ("d",))
    assert edges.calls(("a", None)) == {"b": {"d": {}}, "c": {"d": {}}}


def test_a_model_that_is_unloaded_closes_no_circle(edges: CallEdges) -> None:
    callees = ("b",)
    edges.add(("a", None), callees)
    edges.remove(("a", None), callees)
    edges.add(("b", None), ("a",))
    assert edges.calls(("b", None)) == {"a": {}}


def test_the_end_of_an_older_load_leaves_the_edges_of_a_newer_one(edges: CallEdges) -> None:
    older, newer = ("b",), ("c",)
    edges.add(("a", None), older)
    edges.add(("a", None), newer)
    edges.remove(("a", None), older)
    assert edges.calls(("a", None)) == {"c": {}}
