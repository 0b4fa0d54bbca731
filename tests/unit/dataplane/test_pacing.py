"""Streams at a rate: by parameter, by header and by the model's settings."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inferstream import MLModel, testing
from inferstream.dataplane.call import header_interval
from inferstream.dataplane.reply import pace
from inferstream.errors import InvalidRequest
from inferstream.settings import ModelSettings
from inferstream.types import InferenceRequest, InferenceResponse, Parameters


class Counting(MLModel):
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        for number in range(6):
            yield InferenceResponse(model_name=self.name, outputs=[], parameters=Parameters(number=number))


async def seconds(settings: ModelSettings, **parameters: object) -> float:
    request = InferenceRequest(inputs=[], parameters=Parameters(**parameters) if parameters else None)
    async with testing.run(settings) as models:
        loop = asyncio.get_running_loop()
        started = loop.time()
        numbers = [each.parameters.number async for each in models.stream("counting", request)]
        assert numbers == list(range(6))
        return loop.time() - started


async def test_parameter_and_setting_limit_stream_rate() -> None:
    plain = ModelSettings(name="counting", implementation=Counting)
    slow = ModelSettings(name="counting", implementation=Counting, items_per_second=25)
    assert await seconds(plain, items_per_second=25) >= 0.199
    assert await seconds(slow) >= 0.199
    assert await seconds(slow, items_per_second=10**6) >= 0.199  # a model's rate is the most for every client


@pytest.mark.parametrize("rate", [0, -1, "5", True, float("inf"), float("nan")])
async def test_rate_must_be_positive(rate: object) -> None:
    with pytest.raises(InvalidRequest, match='parameter "items_per_second" must be a positive number'):
        await seconds(ModelSettings(name="counting", implementation=Counting), items_per_second=rate)


@pytest.mark.parametrize("rate", [1e-300, 5e-324, 0.00099])
async def test_rate_that_blocks_a_slot_too_long_is_refused(rate: float) -> None:
    with pytest.raises(InvalidRequest, match=f"must be at least 0.001 responses in a second, got {rate}"):
        await seconds(ModelSettings(name="counting", implementation=Counting), items_per_second=rate)
    with pytest.raises(InvalidRequest, match=r"X-Items-Per-Second must be at least 0\.001"):
        header_interval(b"%g" % rate)
    with pytest.raises(ValueError, match="items_per_second"):
        ModelSettings(name="counting", implementation=Counting, items_per_second=rate)


def test_header_rate_must_be_positive() -> None:
    assert header_interval(b"0.001") == 1000
    assert header_interval(None) == 0
    assert header_interval(b"0.5") == 2
    for value in (b"0", b"-1", b"x", b"", b"nan", b"inf"):
        with pytest.raises(InvalidRequest, match="X-Items-Per-Second"):
            header_interval(value)


async def test_late_item_does_not_lower_the_rate() -> None:
    """The item after it comes sooner, and no later one before its turn."""
    loop = asyncio.get_running_loop()
    pauses = iter([0.0, 0.15, 0.0, 0.0])

    async def following() -> int:
        await asyncio.sleep(next(pauses))
        return 1

    step = pace(following, 0.1)
    started = loop.time()
    times = []
    for _ in range(4):
        await step()
        times.append(loop.time() - started)
    for number, when in enumerate(times, 1):
        assert when >= 0.1 * number - 0.001


def test_settings_refuse_invalid_rates(tmp_path: Path) -> None:
    for rate in (0, -1, "x"):
        text = json.dumps({"name": "m", "implementation": "a.B", "items_per_second": rate})
        with pytest.raises(ValueError, match="items_per_second"):
            ModelSettings.model_validate_json(text)
