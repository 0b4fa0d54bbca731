"""Categories of XGBoost models in metadata."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.frameworks.xgboost import XGBoostModel
from inferstream.types import MetadataTensor
from tests.artefacts.fitted import arrays, loaded
from tests.plugins.frameworks.test_columns import asked


def choices(tensor: MetadataTensor) -> list[Any] | None:
    """The values that a column may have; None for any."""
    written = tensor.parameters and tensor.parameters.get("choices")
    return json.loads(written) if written else None


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("booster", ["gbtree", "dart"])
async def test_categories_are_listed_in_metadata(tmp_path: Path, booster: str, suffix: str) -> None:
    pandas, xgboost = pytest.importorskip("pandas"), pytest.importorskip("xgboost")
    cities = ["Zurich", "Oslo", "b\n"]
    frame = pandas.DataFrame({"age": [1.0, 2, 3] * 5, "city": cities * 5, "floor": [5, 7, -9] * 5})
    frame = frame.astype({"city": "category", "floor": "category"})
    model = xgboost.XGBRegressor(booster=booster, enable_categorical=True, n_estimators=2)
    model.fit(frame, [float(each) for each in range(15)]).save_model(tmp_path / f"model.{suffix}")
    served = await loaded(XGBoostModel, tmp_path / f"model.{suffix}")
    shown = {each.name: each for each in (await served.metadata()).inputs or ()}
    assert {name: choices(each) for name, each in shown.items()} == {
        "age": None,
        "city": sorted(cities),
        "floor": [-9, 5, 7],
    }
    assert [each.datatype for each in shown.values()] == ["FP32", "BYTES", "INT64"]
    known = asked({"age": [1.0, 3.0], "city": ["Oslo", "b\n"], "floor": [7, -9]})
    expected = model.predict(frame.iloc[[1, 2]].assign(age=[1.0, 3.0])).tolist()
    assert arrays(served.predict(known))["predict"][:, 0].tolist() == expected
    with pytest.raises(InvalidRequest, match='column "floor"'):
        served.predict(asked({"age": [1.0], "city": ["Oslo"], "floor": [6]}))
    with pytest.raises(InvalidRequest, match='column "city"'):
        served.predict(asked({"age": [1.0], "city": ["Rome"], "floor": [5]}))


async def test_xgboost_categories_are_not_choices(tmp_path: Path) -> None:
    pandas, xgboost = pytest.importorskip("pandas"), pytest.importorskip("xgboost")
    frame = pandas.DataFrame({"city": pandas.Categorical(["Zürich", "Oslo", "東京"] * 5)})
    model = xgboost.XGBRegressor(enable_categorical=True, n_estimators=2)
    model.fit(frame, [float(each) for each in range(15)]).save_model(tmp_path / "model.json")
    served = await loaded(XGBoostModel, tmp_path / "model.json")
    (shown,) = list((await served.metadata()).inputs or ())
    assert (shown.datatype, choices(shown)) == ("BYTES", None)
