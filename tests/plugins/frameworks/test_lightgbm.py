"""LightGBM's models."""

from inferstream.plugins.frameworks.lightgbm import LightGBMModel
from tests.artefacts import models
from tests.artefacts.fitted import arrays, asked, loaded

FLOWERS = models.FLOWERS


async def test_lightgbm_returns_booster_predictions(tmp_path) -> None:
    model = await loaded(LightGBMModel, models.light(tmp_path).parent)
    assert arrays(model.predict(asked(FLOWERS)))["predict"].shape == (150, 3)
    assert list(arrays(model.predict(asked(FLOWERS, "predict_proba")))) == ["predict"]
