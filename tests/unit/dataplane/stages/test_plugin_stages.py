"""Stages of other packages around a model."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from inferstream.dataplane.call import Handler
from inferstream.dataplane.stages.base import Pipeline, Shared
from inferstream.dataplane.stages.plugin_stages import guard_stage
from inferstream.errors import InvalidSettings, PermissionDenied
from inferstream.extensions.entries import OURS, STAGES, Plugin
from inferstream.settings import ModelSettings, Settings


class Execution:
    settings = ModelSettings(name="m", implementation="m.M")


class Named(str):
    """A reply with a name."""

    single = True


async def innermost(call: Any) -> Any:
    return Named("model")


def model(handler: Any = innermost) -> Pipeline:
    parts: list[Any] = [Execution(), *[None] * 8]
    return replace(Pipeline(*parts), handler=handler)


def handler(
    *factories: Any, strict: bool = False, package: str = "p", around: Pipeline | None = None
) -> Handler:
    """The handler of a model with these stages."""
    shared = Shared(Settings(strict=strict), cast(Any, None))
    pipeline = around or model()
    for number, each in enumerate(factories):
        pipeline = guard_stage(Plugin(package, STAGES, f"s{number}", "m:x"), each)(pipeline, shared)
    return pipeline.handler


async def reply_of(*factories: Any, **options: Any) -> Any:
    return await handler(*factories, **options)(cast(Any, None))


def adds(name: str) -> Any:
    def factory(model: Pipeline, shared: Shared) -> Pipeline:
        async def stage(call: Any) -> Any:
            return Named(f"{name}({await model.handler(call)})")

        return replace(model, handler=stage)

    return factory


def fails(model: Pipeline, shared: Shared) -> Pipeline:
    raise ValueError("no licence")


async def test_first_stage_is_innermost() -> None:
    assert await reply_of(adds("a"), adds("b")) == "b(a(model))"


def test_disabled_stage_has_no_overhead() -> None:
    assert handler(lambda model, shared: model) is innermost


class Stream:
    single = False
    closed: BaseException | None = None

    async def aclose(self, error: BaseException | None) -> None:
        self.closed = error


@pytest.mark.parametrize("error", [PermissionDenied("no"), asyncio.CancelledError(), ValueError("x")])
async def test_stage_failing_after_model_start_closes_the_stream(error: BaseException) -> None:
    stream = Stream()

    async def streams(call: Any) -> Any:
        return stream

    def refuses(model: Pipeline, shared: Shared) -> Pipeline:
        async def stage(call: Any) -> Any:
            await model.handler(call)
            raise error

        return replace(model, handler=stage)

    passed = await reply_of(adds_nothing, around=model(streams))
    assert passed is stream
    assert stream.closed is None
    with pytest.raises(type(error)):
        await reply_of(adds_nothing, refuses, adds_nothing, around=model(streams))
    assert stream.closed is error


def adds_nothing(model: Pipeline, shared: Shared) -> Pipeline:
    async def stage(call: Any) -> Any:
        return await model.handler(call)

    return replace(model, handler=stage)


@pytest.mark.parametrize(
    ("factory", "reason"),
    [(fails, "ValueError: no licence"), (lambda model, shared: None, "it returned a NoneType for model m, not a StagedModel")],
)  # fmt: skip
@pytest.mark.parametrize("strict", [False, True])
def test_model_with_failing_stage_is_not_served(factory: Any, reason: str, strict: bool) -> None:
    with pytest.raises(InvalidSettings) as refused:
        handler(adds("a"), factory, strict=strict)
    assert reason in refused.value.message


def test_builtin_stage_error_is_raised() -> None:
    with pytest.raises(ValueError, match="no licence"):
        handler(fails, package=OURS)
