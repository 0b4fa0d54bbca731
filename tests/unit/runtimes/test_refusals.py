"""Errors of frameworks that are errors of the client."""

import numpy as np
import pytest

from inferstream.codecs import PandasCodec
from inferstream.errors import InvalidRequest
from tests.artefacts import models
from tests.artefacts.fitted import asked, fitted, of_kind


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
async def test_data_frame_with_too_few_columns_is_a_client_error(tmp_path, kind: str) -> None:
    model = await of_kind(kind, tmp_path)
    with pytest.raises(InvalidRequest, match='inputs "age", "city": '):
        model.predict(asked(models.people().assign(city=1), codec=PandasCodec))


async def test_scikit_learn_refusal_is_a_client_error(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path)
    with pytest.raises(InvalidRequest, match=r'input "input-1": Input X contains NaN\.'):
        model.predict(asked(np.full((1, 4), np.nan)))
    with pytest.raises(InvalidRequest, match=r'input "input-1": .*could not convert string to float'):
        model.predict(asked(np.array([["a", "b", "c", "d"]])))


async def test_missing_column_is_a_client_error(tmp_path) -> None:
    model = await fitted(models.frame_pipeline(), tmp_path)
    with pytest.raises(InvalidRequest, match=r'input "age": .*city'):
        model.predict(asked(models.people()[["age"]], codec=PandasCodec))


async def test_custom_step_error_is_not_a_client_error(tmp_path) -> None:
    model = await fitted(models.secretive(), tmp_path)
    with pytest.raises(ValueError, match="password") as raised:
        model.predict(asked(np.full((1, 4), np.nan)))
    assert not isinstance(raised.value, InvalidRequest)
