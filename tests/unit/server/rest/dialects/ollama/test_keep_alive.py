"""`keep_alive` as Ollama's clients send it."""

import json
from typing import Any

import pytest

from inferstream.errors import InvalidRequest
from inferstream.server.rest.dialects.ollama.keep_alive import LONGEST, kept
from inferstream.text.fields import Fields


def read(value: Any) -> float | None:
    return kept(Fields.read(json.dumps({"keep_alive": value}).encode()))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(300, 300), (0, 0), ("0", 0), (1.5, 1.5), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25)],
)
def test_a_number_or_a_duration(value: object, seconds: float) -> None:
    assert read(value) == pytest.approx(seconds)


@pytest.mark.parametrize("value", [-1, "-1", "-1m"])
def test_a_negative_one_is_for_ever(value: object) -> None:
    assert read(value) is None


@pytest.mark.parametrize(
    "value", ["", "m", "1h30", "5 m", "1d", "5m\n", True, "1" * (LONGEST + 1), "1s" * LONGEST]
)
def test_others_are_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="keep_alive"):
        read(value)


def test_many_digits_before_a_wrong_unit_are_read_in_one_way() -> None:
    with pytest.raises(InvalidRequest, match="keep_alive"):
        read("1" * (LONGEST - 1) + "x")
