"""`keep_alive` as Ollama's clients send it."""

import json
from typing import Any

import pytest

from inferstream.errors import InvalidRequest
from inferstream.ext.calls import Action
from inferstream.plugins.text.fields import Fields
from inferstream.plugins.text.ollama.keep_alive import MAX_DURATION_LENGTH, KeepAlive, parse_keep_alive


def read(value: Any) -> float | None:
    return parse_keep_alive(Fields.read(json.dumps({"keep_alive": value}).encode()))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(300, 300), (0, 0), ("0", 0), (1.5, 1.5), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("250ms", 0.25)],
)
def test_number_or_duration(value: object, seconds: float) -> None:
    assert read(value) == pytest.approx(seconds)


@pytest.mark.parametrize("value", [-1, "-1", "-1m"])
def test_negative_keep_alive_is_forever(value: object) -> None:
    assert read(value) is None


@pytest.mark.parametrize(
    "value",
    ["", "m", "1h30", "5 m", "1d", "5m\n", True, "1" * (MAX_DURATION_LENGTH + 1), "1s" * MAX_DURATION_LENGTH],
)
def test_invalid_keep_alive_is_refused(value: object) -> None:
    with pytest.raises(InvalidRequest, match="keep_alive"):
        read(value)


def test_many_digits_before_wrong_unit_parse_in_linear_time() -> None:
    with pytest.raises(InvalidRequest, match="keep_alive"):
        read("1" * (MAX_DURATION_LENGTH - 1) + "x")


class Access:
    """Counts what is asked for."""

    def __init__(self, may: bool) -> None:
        self.may = may
        self.asked: list[tuple[Action, str]] = []

    def may_evict(self, caller: Any) -> bool:
        return self.may

    async def run(self, action: Action, caller: Any, model: str, work: Any) -> None:
        self.asked.append((action, model))
        await work()


class Model:
    """May leave memory, and is asked for by one caller."""

    def __init__(self) -> None:
        self.keep: float | None = 60.0
        self.loads = 0
        self.model, self.caller = "m", None
        self.pipeline = self.execution = self
        self.resident: Any = self

    async def enter(self) -> None:
        self.loads += 1

    def leave(self) -> None: ...


async def applied(model: Model, fields: dict[str, Any], may: bool, load: bool = False) -> int:
    """How often it counts."""
    access: Any = Access(may)
    admission: Any = model
    await KeepAlive(access, admission, Fields.read(json.dumps(fields).encode())).apply(load)
    assert set(access.asked) <= {(Action.REPOSITORY_WRITE, "m")}
    return len(access.asked)


@pytest.mark.parametrize("load", [False, True])
async def test_keep_alive_applies_on_load_or_change(load: bool) -> None:
    model = Model()
    assert await applied(model, {}, True, load) == load
    assert await applied(model, {"keep_alive": 60}, True, load) == load
    assert await applied(model, {"keep_alive": -1}, True, load) == 1
    assert model.keep is None
    assert await applied(model, {"keep_alive": 0}, True, load) == 1
    assert model.keep == 0.0
    assert model.loads == 3 * load, "one that is to leave at once is not loaded"


@pytest.mark.parametrize("load", [False, True])
async def test_keep_alive_without_right_has_no_effect(load: bool) -> None:
    model = Model()
    for value in (0, -1, "5m"):
        assert await applied(model, {"keep_alive": value}, False, load) == load
    assert model.keep == 60.0
    assert model.loads == 2 * load


async def test_other_models_keep_their_keep_alive() -> None:
    model = Model()
    model.resident = None
    assert await applied(model, {"keep_alive": 0}, True) == 0
    assert await applied(model, {"keep_alive": 0}, True, load=True) == 1
    assert (model.keep, model.loads) == (60.0, 0)
