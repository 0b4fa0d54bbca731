"""The meters of a replica as gauges of Ray's."""

import sys
from types import ModuleType

import pytest

from inferstream import App, Application
from inferstream.plugins.kubernetes.load import Loads
from inferstream.plugins.ray.numbers import Numbers

app = App()


@app.model
async def double(number: int) -> int:
    return 2 * number


class Gauge:
    made: dict[str, "Gauge"] = {}

    def __init__(self, name: str, description: str, tag_keys: tuple[str, ...]) -> None:
        assert name not in self.made
        self.made[name] = self
        self.tag_keys = tag_keys
        self.values: dict[tuple[tuple[str, str], ...], float] = {}

    def set(self, value: float, tags: dict[str, str]) -> None:
        assert set(tags) == set(self.tag_keys)
        self.values[tuple(sorted(tags.items()))] = value


@pytest.fixture(autouse=True)
def metrics_of_ray(monkeypatch) -> None:
    Gauge.made = {}
    metrics = ModuleType("ray.serve.metrics")
    metrics.Gauge = Gauge
    for name, module in {
        "ray": ModuleType("ray"),
        "ray.serve": ModuleType("ray.serve"),
        "ray.serve.metrics": metrics,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)


async def test_each_series_has_labels_and_latest_value() -> None:
    async with Application(app) as application:
        numbers = Numbers(application.meters, application.models.of(Loads))
        numbers.copy()
        application.meters.of("double", None).in_flight = 3
        numbers.copy()
    assert Gauge.made["inferstream_utilization"].tag_keys == ()
    assert set(Gauge.made["inferstream_running"].values) == {()}
    in_flight = [each for each in Gauge.made.values() if 3 in each.values.values()]
    assert in_flight
    assert not any(name.startswith(("process_", "python_")) for name in Gauge.made)
