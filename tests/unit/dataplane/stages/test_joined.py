"""Stages of other packages around a model."""

from dataclasses import replace
from typing import Any, cast

import pytest

from inferstream.dataplane.stages.base import Pipeline, Shared
from inferstream.dataplane.stages.joined import joined
from inferstream.errors import InvalidSettings
from inferstream.extensions import OURS, STAGES, Plugin
from inferstream.settings import ModelSettings, Settings


class Execution:
    settings = ModelSettings(name="m", implementation="m.M")


def model() -> Pipeline:
    parts: list[Any] = [Execution(), *[None] * 8]
    return Pipeline(*parts)


def handler(*factories: Any, strict: bool = False, package: str = "p") -> Any:
    """The handler of a model with these stages."""
    shared = Shared(Settings(strict=strict), cast(Any, None))
    pipeline = model()
    for number, each in enumerate(factories):
        pipeline = joined(Plugin(package, STAGES, f"s{number}", "m:x"), each)(pipeline, shared)
    return pipeline.handler


def adds(name: str) -> Any:
    def factory(model: Pipeline, shared: Shared) -> Pipeline:
        return replace(model, handler=cast(Any, f"{name}({model.handler})"))

    return factory


def fails(model: Pipeline, shared: Shared) -> Pipeline:
    raise ValueError("no licence")


def test_the_first_stage_is_innermost() -> None:
    assert handler(adds("a"), adds("b")) == "b(a(None))"


@pytest.mark.parametrize(
    ("factory", "reason"),
    [(fails, "ValueError: no licence"), (lambda model, shared: None, "it returned a NoneType for model m, not a Pipeline")],
)  # fmt: skip
def test_a_stage_that_fails_is_left_out_or_ends_a_strict_start(factory: Any, reason: str) -> None:
    assert handler(adds("a"), factory, adds("b")) == "b(a(None))"
    with pytest.raises(InvalidSettings) as refused:
        handler(factory, strict=True)
    assert reason in refused.value.message


def test_an_error_of_ours_is_raised() -> None:
    with pytest.raises(ValueError, match="no licence"):
        handler(fails, package=OURS)
