"""`split` and `shadow` in a model's settings."""

import pytest
from pydantic import ValidationError

from inferstream.settings import ModelSettings


def settings(**values: object) -> ModelSettings:
    return ModelSettings(implementation="models.Any", **values)


def test_shares_alone_are_a_split() -> None:
    assert settings(split={"1": 95, "2": 5}).split == settings(split={"versions": {"1": 95, "2": 5}}).split


def test_the_name_of_the_header_is_that_of_the_headers_of_a_call() -> None:
    split = settings(split={"versions": {"1": 1}, "by": "X-User"}).split
    assert split is not None
    assert split.by == "x-user"


def test_a_shadow_gets_every_call_and_is_compared_unless_the_settings_say_otherwise() -> None:
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
def test_wrong_values_are_named(values: dict, named: str) -> None:
    with pytest.raises(ValidationError) as failed:
        settings(**values)
    assert named in str(failed.value)
