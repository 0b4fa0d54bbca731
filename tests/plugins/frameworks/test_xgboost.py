"""XGBoost's models."""

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.frameworks.xgboost import XGBoostModel
from tests.artefacts import models
from tests.artefacts.fitted import arrays, asked, loaded, of_kind

FLOWERS = models.FLOWERS


@pytest.mark.parametrize("file", ["model.bst", "model.json", "model.ubj"])
async def test_xgboost_reads_every_format_and_kind(tmp_path, file: str) -> None:
    classifier = await loaded(XGBoostModel, models.boosted("XGBClassifier", tmp_path, file).parent)
    found = arrays(classifier.predict(asked(FLOWERS, "predict", "predict_proba")))
    assert found["predict_proba"].shape == (150, 3)
    assert (found["predict"][:, 0] == models.SPECIES).mean() > 0.9
    regressor = await loaded(XGBoostModel, models.boosted("XGBRegressor", tmp_path, file))
    assert arrays(regressor.predict(asked(FLOWERS)))["predict"].shape == (150, 1)
    with pytest.raises(InvalidRequest, match="predict_proba"):
        regressor.predict(asked(FLOWERS, "predict_proba"))


@pytest.mark.filterwarnings("ignore:.*gblinear")  # deprecated in 3.4
async def test_linear_boosters_predict_sequentially(tmp_path) -> None:
    path = models.boosted("XGBRegressor", tmp_path, "model.json", booster="gblinear")
    model = await loaded(XGBoostModel, path)
    assert isinstance(model, XGBoostModel)
    assert not hasattr((await of_kind("xgboost", tmp_path))._lock, "locked")  # type: ignore[attr-defined]
    assert model._lock.locked() is False  # type: ignore[attr-defined]
    assert arrays(model.predict(asked(FLOWERS)))["predict"].shape == (150, 1)
