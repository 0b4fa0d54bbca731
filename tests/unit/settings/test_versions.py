"""The order of versions."""

import itertools

import pytest

from inferstream.settings.versions import newest


@pytest.mark.parametrize(
    ("versions", "highest"),
    [
        (["1", "9", "10"], "10"),
        (["1", None, "2"], None),
        (["1", "", "2"], ""),
        (["a", "b"], "b"),
        (["v9", "v10"], "v9"),
    ],
)
def test_newest_version_is_independent_of_order(versions: list[str | None], highest: str | None) -> None:
    assert {newest(order) for order in itertools.permutations(versions)} == {highest}
