"""What a model reports of its KV cache."""

import logging

import pytest

from inferstream import MLModel, ModelSettings
from inferstream.dataplane.execution import kv
from inferstream.telemetry.model_meters import ModelMeters
from inferstream.telemetry.stages import KvMeters, StepMeters


class Cached(MLModel):
    kv_usage = 0.5


class Broken(MLModel):
    @property
    def kv_usage(self) -> float:  # type: ignore[override]  # a property of model code
        raise OSError("no device")


def measured(model: type[MLModel], meters: ModelMeters) -> tuple[float, int] | None:
    kv.measure(model(ModelSettings(name="m", implementation=model)), 8, meters)
    found = meters.stages.get(KvMeters)
    return (found.used, found.caches) if isinstance(found, KvMeters) else None


def test_kv_report_is_read_from_attribute() -> None:
    assert measured(Cached, ModelMeters("m", None)) == (0.5, 1)
    assert measured(MLModel, ModelMeters("m", None)) is None


def test_step_models_report_active_streams_by_default() -> None:
    meters = ModelMeters("m", None)
    meters.of(StepMeters).active = 2
    assert measured(MLModel, meters) == (0.25, 1)
    assert measured(Cached, meters) == (0.5, 1)


def test_kv_report_is_between_zero_and_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cached, "kv_usage", 1.5)
    assert measured(Cached, ModelMeters("m", None)) == (1.0, 1)


def test_failing_kv_property_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert measured(Broken, ModelMeters("m", None)) is None
    assert "kv_usage" in caplog.text


def test_unloaded_model_has_no_kv_cache() -> None:
    meters = ModelMeters("m", None)
    measured(Cached, meters)
    kv.forget(meters)
    assert measured(MLModel, meters) == (0.0, 0)
