"""The number of predictions at once."""

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from inferstream.dataplane.execution.local import Local
from inferstream.errors import ModelLoadFailed
from inferstream.plugins.frameworks.sklearn import SKLearnModel
from inferstream.settings import ModelSettings


def test_one_prediction_per_processor_runs_by_default(monkeypatch) -> None:
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


async def test_pickle_with_unavailable_class_fails_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Own:
        """A class that only the program of its author has."""

    Own.__module__, Own.__qualname__ = "__main__", "Own"
    with monkeypatch.context() as program:
        program.setattr(sys.modules["__main__"], "Own", Own, raising=False)
        (tmp_path / "model.pkl").write_bytes(pickle.dumps(Own()))
    settings = ModelSettings(name="m", implementation=SKLearnModel, parameters={"uri": str(tmp_path)})
    with pytest.raises(ModelLoadFailed, match=r"Own was part of the program.*module next to the file"):
        await SKLearnModel(settings).load()
