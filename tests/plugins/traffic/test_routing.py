"""The version that a caller gets of a model whose settings split its calls."""

from collections import Counter

import pytest

from inferstream.ext.calls import Caller
from inferstream.plugins.traffic.routing import choose_version
from inferstream.plugins.traffic.settings import Split
from inferstream.types import Headers


def caller(principal: str | None = None, **headers: str) -> Caller:
    made = Caller(Headers(list(headers.items())), "rest")
    made.principal = principal
    return made


def split(by: str | None = None, **shares: float) -> Split:
    return Split(versions={name.removeprefix("v"): share for name, share in shares.items()}, by=by)


def test_random_shares_match_split() -> None:
    chosen = Counter(choose_version(split(v1=3, v2=1), {"1", "2"}, caller()) for _ in range(4000))
    assert 800 < chosen["2"] < 1200


def test_principal_shares_match_split_and_versions_are_sticky() -> None:
    shares = split(v1=3, v2=1)
    first = [choose_version(shares, {"1", "2"}, caller(f"team-{number}")) for number in range(4000)]
    assert first == [choose_version(shares, {"1", "2"}, caller(f"team-{number}")) for number in range(4000)]
    assert 800 < Counter(first)["2"] < 1200


def test_increased_share_moves_no_principal_off_last_version() -> None:
    few, many = split(v1=95, v2=5), split(v1=50, v2=50)
    names = [f"team-{number}" for number in range(500)]
    moved = [name for name in names if choose_version(few, {"1", "2"}, caller(name)) == "2"]
    assert moved
    assert all(choose_version(many, {"1", "2"}, caller(name)) == "2" for name in moved)


def test_header_overrides_principal() -> None:
    shares = split(by="x-user", v1=1, v2=1)
    users = [f"u{number}" for number in range(50)]
    by_header = [choose_version(shares, {"1", "2"}, caller("team", **{"x-user": user})) for user in users]
    assert set(by_header) == {"1", "2"}
    assert len({choose_version(shares, {"1", "2"}, caller("team")) for _ in users}) == 1


@pytest.mark.parametrize(("ready", "expected"), [({"1"}, "1"), ({"2"}, "2"), (set(), None), ({"3"}, None)])
def test_versions_not_ready_get_no_traffic(ready: set[str], expected: str | None) -> None:
    assert choose_version(split(v1=95, v2=5, v3=0), ready, caller()) == expected
