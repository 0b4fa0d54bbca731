"""Which of several versions of a model answers when a request names none."""

from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest

from inferstream.dataplane.serving import Serving
from inferstream.settings import Settings
from inferstream.signature import Signature
from inferstream.telemetry.metrics import Meters
from inferstream.types import RepositoryIndexResponseItem


class Loaded(Serving):
    """Models that are loaded by a test."""

    ready = True

    async def index(self, ready: bool) -> list[RepositoryIndexResponseItem]:
        return []

    async def load(self, name: str) -> None: ...

    async def unload(self, name: str) -> bool:
        return False


def chosen(*versions: str | None) -> set[Any]:
    """What answers, whatever the order of loading."""
    found = set()
    for order in permutations(versions):
        serving = Loaded(Settings(), Meters("rest_server"))
        for version in order:
            execution = SimpleNamespace(routes=[], signature=Signature())
            served: Any = SimpleNamespace(execution=execution, version=version, handler=None, text=None)
            serving._put(("m", version), served)
        found.add(serving.get("m").version)  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("versions", "answers"),
    [
        (["1", "2", "10"], "10"),
        (["-1", "-2"], "-1"),
        (["v3", "8"], "v3"),
        (["v3", "7"], "v3"),
        (["v2", "v10"], "v2"),
        (["1.9", "1.10"], "1.9"),
        (["2", None, "v3"], None),
    ],
)
def test_the_highest_answers_numbers_as_numbers_and_all_else_as_texts(versions, answers) -> None:
    assert chosen(*versions) == {answers}


def test_where_there_is_no_highest_the_order_of_loading_does_not_decide() -> None:
    assert len(chosen("9", "10", "1a")) == 1  # 10 above 9, 9 above 1a, 1a above 10
