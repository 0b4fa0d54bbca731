"""The number of predictions at once."""

from typing import Any

from inferstream.dataplane.execution.local import Local
from inferstream.runtimes.sklearn import SKLearnModel
from inferstream.settings import ModelSettings


def test_one_prediction_runs_for_each_processor_unless_the_settings_say_otherwise(monkeypatch) -> None:
    monkeypatch.setattr("inferstream.processors.share", lambda: 3)
    cases: list[tuple[dict[str, Any], int, int]] = [
        ({}, 3, 3),
        ({"threads": 5}, 5, 5),
        ({"max_concurrency": 4}, 4, 4),
        ({"threads": 2, "max_concurrency": 8}, 2, 8),
        ({"parameters": {"extra": {"n_jobs": 2}}}, 1, 1),
        ({"parameters": {"extra": {"n_jobs": -1}}}, 3, 3),
    ]
    for given, threads, slots in cases:
        model = SKLearnModel(ModelSettings(name="m", implementation=SKLearnModel, **given))
        assert (model.settings.threads, Local(model).slots.count) == (threads, slots), given
