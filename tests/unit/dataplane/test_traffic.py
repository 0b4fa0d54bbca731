"""The version that a caller gets of a model whose settings split its calls."""

from collections import Counter

import pytest

from inferstream.dataplane.caller import Caller
from inferstream.dataplane.traffic import chosen_version
from inferstream.settings.traffic import Split
from inferstream.types import Headers


def caller(principal: str | None = None, **headers: str) -> Caller:
    made = Caller(Headers(list(headers.items())), "rest")
    made.principal = principal
    return made


def split(by: str | None = None, **shares: float) -> Split:
    return Split(versions={name.removeprefix("v"): share for name, share in shares.items()}, by=by)


def test_shares_of_callers_by_chance_are_those_of_the_split() -> None:
    chosen = Counter(chosen_version(split(v1=3, v2=1), {"1", "2"}, caller()) for _ in range(4000))
    assert 800 < chosen["2"] < 1200


def test_shares_of_principals_are_those_of_the_split_and_each_keeps_its_version() -> None:
    shares = split(v1=3, v2=1)
    first = [chosen_version(shares, {"1", "2"}, caller(f"team-{number}")) for number in range(4000)]
    assert first == [chosen_version(shares, {"1", "2"}, caller(f"team-{number}")) for number in range(4000)]
    assert 800 < Counter(first)["2"] < 1200


def test_more_percent_move_no_principal_away_from_the_last_version() -> None:
    few, many = split(v1=95, v2=5), split(v1=50, v2=50)
    names = [f"team-{number}" for number in range(500)]
    moved = [name for name in names if chosen_version(few, {"1", "2"}, caller(name)) == "2"]
    assert moved
    assert all(chosen_version(many, {"1", "2"}, caller(name)) == "2" for name in moved)


def test_the_header_wins_over_the_principal() -> None:
    shares = split(by="x-user", v1=1, v2=1)
    users = [f"u{number}" for number in range(50)]
    by_header = [chosen_version(shares, {"1", "2"}, caller("team", **{"x-user": user})) for user in users]
    assert set(by_header) == {"1", "2"}
    assert len({chosen_version(shares, {"1", "2"}, caller("team")) for _ in users}) == 1


@pytest.mark.parametrize(("ready", "expected"), [({"1"}, "1"), ({"2"}, "2"), (set(), None), ({"3"}, None)])
def test_versions_that_are_not_ready_get_nothing(ready: set[str], expected: str | None) -> None:
    assert chosen_version(split(v1=95, v2=5, v3=0), ready, caller()) == expected
