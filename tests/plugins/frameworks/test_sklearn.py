"""Estimators of scikit-learn."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import OneHotEncoder

from inferstream.codecs import PandasCodec, StringRequestCodec
from inferstream.errors import InvalidRequest
from inferstream.types import InferenceRequest, RequestInput
from tests.artefacts import models
from tests.artefacts.fitted import arrays, asked, fitted

FLOWERS = models.FLOWERS


def refuse(rows: np.ndarray) -> np.ndarray:
    raise TypeError("own")


async def test_vectorizer_returns_dense_arrays_for_strings(tmp_path) -> None:
    model = await fitted(models.vectorizer(), tmp_path, predict_fn="transform")
    request = asked(["good day", "night"], codec=StringRequestCodec)
    assert arrays(model.predict(request))["transform"].shape == (2, 4)


async def test_strings_in_strings_out(tmp_path) -> None:
    model = await fitted(models.text_classifier(), tmp_path)
    response = model.predict(asked(["good day", "bad night"], codec=StringRequestCodec))
    assert response.outputs[0].data.flat() == [b"fine", b"sad"]


async def test_pipeline_accepts_data_frame(tmp_path) -> None:
    model = await fitted(models.frame_pipeline(), tmp_path)
    request = asked(models.people(), "predict", "predict_proba", codec=PandasCodec)
    assert arrays(model.predict(request))["predict"][:, 0].tolist() == [0, 0, 1, 1]


async def test_data_frame_returns_as_columns(tmp_path) -> None:
    model = await fitted(models.frame_scaler(), tmp_path)
    frame = models.people()[["age"]].assign(height=160.0)
    response = model.predict(asked(frame, "transform", codec=PandasCodec))
    assert [output.name for output in response.outputs] == ["age", "height"]
    assert PandasCodec.decode_response(response).equals(models.frame_scaler().transform(frame))


@pytest.mark.parametrize("handle_unknown", ["error", "ignore"])
@pytest.mark.parametrize("number", [3, 3.5])
async def test_number_in_column_of_strings_is_refused(tmp_path, handle_unknown: str, number: float) -> None:
    encoder = OneHotEncoder(handle_unknown=handle_unknown).fit(models.people()[["city"]])
    model = await fitted(encoder, tmp_path)
    request = asked(pd.DataFrame({"city": [number]}), codec=PandasCodec)
    with pytest.raises(InvalidRequest, match=r'input "city": .* compare the datatypes with the model'):
        model.predict(request)


async def test_error_of_own_function_is_not_a_client_error(tmp_path) -> None:
    model = await fitted(refuse, tmp_path)
    with pytest.raises(TypeError, match="own"):
        model.predict(asked(FLOWERS))


async def test_function_is_called(tmp_path) -> None:
    model = await fitted(partial(np.clip, a_min=1, a_max=2), tmp_path)
    found = arrays(model.predict(asked(FLOWERS)))
    assert [*found] == ["predict"]
    assert (found["predict"] == FLOWERS.clip(1, 2)).all()
    with pytest.raises(
        InvalidRequest, match='output "transform" is not one of the model\'s outputs: predict'
    ):
        model.predict(asked(FLOWERS, "transform"))
    metadata = await model.metadata()
    assert (metadata.inputs, metadata.outputs) == ([], [])


@pytest.mark.parametrize("module", ["lightgbm.sklearn", "sklearn.linear_model"])
async def test_lightgbm_estimator_accepts_spaces_in_names(tmp_path, module: str) -> None:
    frame = pd.DataFrame({"a_b": [0.0, 1.0, 2.0], "c": [1.0, 0.0, 1.0]})
    estimator = LinearRegression().fit(frame, [0.0, 1.0, 2.0])
    model = await fitted(estimator, tmp_path)
    columns = model.columns(
        type("Estimator", (LinearRegression,), {"__module__": module})().fit(frame, [0, 1, 2])
    )
    inputs = [RequestInput(name=name, datatype="FP64", shape=[1], data=[1.0]) for name in ("a b", "c")]
    if module.startswith("lightgbm"):
        assert [*columns.table(InferenceRequest(inputs=inputs))] == ["a_b", "c"]
    else:
        with pytest.raises(InvalidRequest, match='column "a b" is not one of'):
            columns.table(InferenceRequest(inputs=inputs))
