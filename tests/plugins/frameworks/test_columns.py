"""Requests whose inputs are named as the columns of a table."""

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from inferstream.codecs import NumpyCodec, PandasCodec
from inferstream.errors import InvalidRequest
from inferstream.ext.runtimes import Runtime
from inferstream.plugins.frameworks.lightgbm import LightGBMModel
from inferstream.plugins.frameworks.xgboost import XGBoostModel
from inferstream.types import InferenceRequest, Parameters, RequestInput
from tests.artefacts import models
from tests.plugins.frameworks.test_estimators import loaded, served

FRAME = models.flowers()
ROWS = FRAME.iloc[5::50]


def asked(values: dict[str, Any], **parameters: Any) -> InferenceRequest:
    inputs = [
        RequestInput(name=name, datatype=_datatype(column), shape=[len(column)], data=list(column))
        for name, column in values.items()
    ]
    return InferenceRequest(inputs=inputs, **parameters)


def _datatype(column: Any) -> str:
    return (
        "BYTES" if isinstance(column[0], str | bytes) else "INT64" if isinstance(column[0], int) else "FP64"
    )


def predicted(model: Runtime, request: InferenceRequest) -> list[Any]:
    return NumpyCodec.decode_output(model.predict(request).outputs[0]).ravel().tolist()


async def test_dropped_column_is_optional(tmp_path: Path) -> None:
    people = models.people().assign(note="x", born=1990)
    prepared = ColumnTransformer(
        [("age", StandardScaler(), ["age"]), ("rest", "drop", ["note", "city", "born"])]
    )
    model = await served(make_pipeline(prepared, LogisticRegression()).fit(people, [0, 0, 1, 1]), tmp_path)
    assert predicted(model, asked({"age": [20, 70]})) == [0, 1]
    assert predicted(model, asked({"note": ["a", "b"], "age": [20, 70]})) == [0, 1]
    with pytest.raises(InvalidRequest, match='column "age" is missing; the model has age, city, note, born'):
        model.predict(asked({"note": ["a"]}))
    shown = {tensor.name: tensor.parameters for tensor in (await model.metadata()).inputs or ()}
    assert {name for name, said in shown.items() if said and said.get("optional")} == {"note", "city", "born"}


async def test_wrong_shape_names_columns(tmp_path: Path) -> None:
    model = await served(models.frame_classifier(), tmp_path)
    message = (
        r'input "sepal": the model takes shape \[-1, 4\], got \[1\]; or the columns sepal length \(cm\), '
    )
    with pytest.raises(InvalidRequest, match=message):
        model.predict(asked({"sepal": [5.1]}))


async def test_strings_can_be_bytes(tmp_path: Path) -> None:
    model = await served(models.frame_pipeline(), tmp_path)
    assert predicted(model, asked({"city": [b"Oslo", b"Rome"], "age": [25, 65]})) == [0, 1]


async def test_column_content_type_is_applied(tmp_path: Path) -> None:
    frame = models.people().assign(day=[datetime(2024, 1, day) for day in (1, 2, 3, 4)])  # noqa: DTZ001
    days = FunctionTransformer(_days)
    model = await served(make_pipeline(days, LogisticRegression()).fit(frame, [0, 0, 1, 1]), tmp_path)
    request = asked(
        {"day": ["2024-01-01T00:00:00", "2024-01-04T00:00:00"], "age": [1, 1], "city": ["a", "b"]}
    )
    request.inputs[0].parameters = Parameters(content_type="datetime")
    assert predicted(model, request) == [0, 1]


def _days(frame: Any) -> Any:
    return [[day.day] for day in frame["day"]]


async def test_categories_are_strings(tmp_path: Path) -> None:
    import lightgbm
    import xgboost

    generator = np.random.default_rng(0)
    people = models.people().sample(200, replace=True, random_state=0).reset_index(drop=True)
    people = people.assign(city=people.city.astype("category"), age=generator.integers(1, 90, 200))
    target = (people.city == "Rome").astype(int)
    boosted = xgboost.XGBClassifier(n_estimators=2, enable_categorical=True).fit(people, target)
    boosted.save_model(tmp_path / "model.json")
    settings = {"objective": "binary", "verbose": -1, "min_data_per_group": 1}
    lightgbm.train(settings, lightgbm.Dataset(people, target), 9).save_model(tmp_path / "model.bst")
    for runtime, path in ((XGBoostModel, "model.json"), (LightGBMModel, "model.bst")):
        model = await loaded(runtime, tmp_path / path)
        found = predicted(model, asked({"city": ["Rome", "Oslo", "Rome"], "age": [30, 30, 60]}))
        assert [round(value) for value in found] == [1, 0, 1]
        frame = people.iloc[:3].assign(city=["Rome", "Oslo", "Rome"], age=[30, 30, 60])[["age", "city"]]
        assert predicted(model, PandasCodec.encode_request(frame)) == found
        shown = {tensor.name: tensor.datatype for tensor in (await model.metadata()).inputs or ()}
        assert shown["city"] == "BYTES"


async def test_frame_columns_are_reordered_for_model(tmp_path: Path) -> None:
    frame = FRAME.set_axis(list("abcd"), axis=1)
    import lightgbm

    booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(frame, models.SPECIES), 3)
    booster.save_model(tmp_path / "model.bst")
    light = await loaded(LightGBMModel, tmp_path / "model.bst")
    sklearn = await served(LogisticRegression(max_iter=999).fit(frame, models.SPECIES), tmp_path)
    rows = frame.iloc[5::50]
    for model in (light, sklearn):
        turned = PandasCodec.encode_request(rows[list("dcba")])
        assert predicted(model, turned) == predicted(model, PandasCodec.encode_request(rows))
    with pytest.raises(InvalidRequest, match="feature names"):
        sklearn.predict(PandasCodec.encode_request(rows.assign(e=1)))


async def test_array_model_has_no_columns(tmp_path: Path) -> None:
    model = await served(models.classifier(), tmp_path)
    with pytest.raises(Exception, match='"np" codec takes requests with a single input, got 2'):
        model.predict(asked({"a": [1.0], "b": [2.0]}))


async def test_model_with_failing_attributes_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = await served(Strange(), tmp_path)
    assert "inputs and outputs are unknown" in caplog.text
    assert (await model.metadata()).inputs == []
    request = InferenceRequest(inputs=[RequestInput(name="x", datatype="FP64", shape=[1, 1], data=[2.0])])
    assert predicted(model, request) == [2.0]


class Strange:
    """Its attributes fail."""

    @property
    def feature_names_in_(self) -> Any:
        raise RuntimeError("no names")

    def predict(self, rows: Any) -> Any:
        return rows


@pytest.mark.parametrize("wrong", ["age", "born"])
async def test_string_in_numeric_column_is_named(tmp_path: Path, wrong: str) -> None:
    people = models.people()[["age"]].assign(born=1990)
    model = await served(
        make_pipeline(StandardScaler(), LogisticRegression()).fit(people, [0, 0, 1, 1]), tmp_path
    )
    values = {"age": [20], "born": [1990]}
    with pytest.raises(InvalidRequest, match=f"^column \"{wrong}\" takes numbers, got 'old'$"):
        model.predict(asked({**values, wrong: ["old"]}))
    assert predicted(model, asked({**values, wrong: [str(values[wrong][0])]})) == [0]
