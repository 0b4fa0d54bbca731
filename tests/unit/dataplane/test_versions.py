"""Which of several versions of a model answers when a request names none, and what an error says of those there are."""

from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest

from inferstream.dataplane.access import Authority
from inferstream.dataplane.serving import Serving
from inferstream.errors import ModelNotFound, ModelNotReady
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


def serving(*keys: tuple[str, str | None], **settings: Any) -> Loaded:
    given = Settings(**settings)
    found = Loaded(given, Authority(given), Meters("rest_server"))
    for name, version in keys:
        execution = SimpleNamespace(routes=[], signature=Signature())
        served: Any = SimpleNamespace(execution=execution, version=version, handler=None)
        served.pipeline = SimpleNamespace(facets={})
        found._put((name, version), served)
    return found


def chosen(*versions: str | None) -> set[Any]:
    """What answers, whatever the order of loading."""
    found = set()
    for order in permutations(versions):
        found.add(serving(*(("m", version) for version in order)).get("m").version)  # type: ignore[attr-defined]
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
def test_highest_version_serves_by_default(versions, answers) -> None:
    assert chosen(*versions) == {answers}


def test_default_version_is_independent_of_load_order() -> None:
    assert len(chosen("9", "10", "1a")) == 1  # 10 above 9, 9 above 1a, 1a above 10


@pytest.mark.parametrize(
    ("keys", "asked", "says"),
    [
        ([], ("m", None), "Model m not found"),
        ([("a", None)], ("m", None), "Model m not found; there is model a"),
        (
            [("b", None), ("a", "1"), ("a", "2")],
            ("m", "1"),
            "Model m with version 1 not found; there are models a, b",
        ),
        (
            [("m", "1"), ("m", "10"), ("m", "2")],
            ("m", "3"),
            "Model m with version 3 not found; it has versions 1, 2, 10",
        ),
        (
            [("m", None)],
            ("m", "3"),
            "Model m with version 3 not found; it has no versions; hint: leave the version out",
        ),
        ([(f"m{n:02}", None) for n in range(12)], ("m", None), "m08, m09 and 2 more"),
    ],
)
def test_unknown_model_error_lists_available_models(keys, asked, says) -> None:
    with pytest.raises(ModelNotFound) as caught:
        serving(*keys).get(*asked)
    assert caught.value.message.endswith(says)


def test_mlserver_profile_uses_mlserver_message() -> None:
    with pytest.raises(ModelNotFound) as caught:
        serving(("a", None), status_profile="mlserver").get("m", "v0")
    assert caught.value.message == "Model m with version v0 not found"


def test_names_are_listed_on_public_addresses() -> None:
    with pytest.raises(ModelNotFound, match="there is model a"):
        serving(("a", None), host="0.0.0.0").get("m")


def test_any_model_may_appear_during_start() -> None:
    models = serving(("m", None))
    models.listing = True
    assert models.get("m")
    with pytest.raises(ModelNotReady):
        models.get("other")
