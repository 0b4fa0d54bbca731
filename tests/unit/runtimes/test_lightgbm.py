"""LightGBM's models."""

from inferstream.runtimes.lightgbm import LightGBMModel
from tests.unit.runtimes import models
from tests.unit.runtimes.fitted import arrays, asked, loaded

FLOWERS = models.FLOWERS


async def test_lightgbm_answers_a_boosters_predictions(tmp_path) -> None:
    model = await loaded(LightGBMModel, models.light(tmp_path).parent)
    assert arrays(model.predict(asked(FLOWERS)))["predict"].shape == (150, 3)
    assert list(arrays(model.predict(asked(FLOWERS, "predict_proba")))) == ["predict"]
