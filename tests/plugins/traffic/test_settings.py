"""`split` and `shadow` in a model's settings."""

import pytest
from pydantic import ValidationError

from inferstream import ModelSettings


def settings(**values: object) -> ModelSettings:
    return ModelSettings(implementation="models.Any", **values)


def test_bare_shares_are_a_split() -> None:
    assert settings(split={"1": 95, "2": 5}).split == settings(split={"versions": {"1": 95, "2": 5}}).split


def test_header_name_is_lower_case() -> None:
    split = settings(split={"versions": {"1": 1}, "by": "X-User"}).split
    assert split is not None
    assert split.by == "x-user"


def test_shadow_copies_and_compares_every_call_by_default() -> None:
    shadow = settings(shadow={"to": "2"}).shadow
    assert shadow is not None
    assert (shadow.percent, shadow.compare is None) == (100, False)
    assert settings(shadow={"to": "2", "compare": None}).shadow != shadow


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"split": {}}, "split"),
        ({"split": {"1": 0}}, "above 0"),
        ({"split": {"1": -1, "2": 5}}, "greater than or equal to 0"),
        ({"split": {"1": "many"}}, "split"),
        ({"shadow": {"percent": 5}}, "shadow.to"),
        ({"shadow": {"to": "2", "percent": 0}}, "shadow.percent"),
        ({"shadow": {"to": "2", "percent": 101}}, "shadow.percent"),
        ({"shadow": {"to": "2", "compare": {"rel": 1}}}, "shadow.compare.rel"),
        ({"shadow": {"to": "2", "share": 5}}, "shadow.share"),
    ],
)
def test_invalid_values_are_named(values: dict, named: str) -> None:
    with pytest.raises(ValidationError) as failed:
        settings(**values)
    assert named in str(failed.value)
