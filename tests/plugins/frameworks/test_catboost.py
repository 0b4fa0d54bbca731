"""CatBoost's models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

catboost = pytest.importorskip("catboost")

from inferstream import ModelSettings
from inferstream.codecs import PandasCodec
from inferstream.errors import InvalidRequest, ModelLoadFailed
from inferstream.ext.runtimes import FolderRepository, Runtime
from inferstream.plugins.frameworks.catboost import CatBoostModel
from inferstream.types import InferenceRequest, RequestInput
from tests.artefacts import models
from tests.artefacts.fitted import arrays, asked, loaded

FLOWERS, SPECIES = models.FLOWERS, models.SPECIES
FAST = {"iterations": 8, "depth": 3, "verbose": 0, "thread_count": 1, "allow_writing_files": False}


def trained(folder: Path, kind: str, *data: Any, **settings: Any) -> Any:
    model = getattr(catboost, kind)(**FAST, **settings).fit(*data)
    model.save_model(folder / "model.cbm")
    return model


async def opened(folder: Path, **extra: Any) -> Runtime:
    return await loaded(CatBoostModel, folder, **extra)


def described(tensors: list[Any]) -> list[tuple[str, str, list[int]]]:
    return [(each.name, each.datatype, each.shape) for each in tensors]


async def test_classifier_returns_classes_and_probabilities(tmp_path) -> None:
    own = trained(tmp_path, "CatBoostClassifier", FLOWERS, SPECIES)
    model = await opened(tmp_path)
    found = arrays(model.predict(asked(FLOWERS, "predict", "predict_proba")))
    assert (found["predict"] == own.predict(FLOWERS)).all()
    assert np.allclose(found["predict_proba"], own.predict_proba(FLOWERS))
    metadata = await model.metadata()
    assert described(metadata.inputs) == [("features", "FP64", [-1, 4])]
    assert described(metadata.outputs) == [("predict", "INT64", [-1, 1]), ("predict_proba", "FP64", [-1, 3])]
    assert metadata.outputs[1].parameters.classes == "[0,1,2]"


async def test_regressor_has_no_probabilities(tmp_path) -> None:
    own = trained(tmp_path, "CatBoostRegressor", FLOWERS, SPECIES.astype(float))
    model = await opened(tmp_path)
    assert np.allclose(arrays(model.predict(asked(FLOWERS)))["predict"][:, 0], own.predict(FLOWERS))
    assert described((await model.metadata()).outputs) == [("predict", "FP64", [-1, 1])]
    with pytest.raises(
        InvalidRequest, match='output "predict_proba" is not one of the model\'s outputs: predict'
    ):
        model.predict(asked(FLOWERS, "predict_proba"))


async def test_multiple_outputs_per_row_are_served_undescribed(tmp_path) -> None:
    targets = np.column_stack([SPECIES, SPECIES]).astype(float)
    trained(tmp_path, "CatBoostRegressor", FLOWERS, targets, loss_function="MultiRMSE")
    model = await opened(tmp_path)
    assert arrays(model.predict(asked(FLOWERS)))["predict"].shape == (150, 2)
    assert (await model.metadata()).outputs == []


async def test_columns_match_by_name_and_categories_are_strings(tmp_path) -> None:
    answers = ["no", "no", "yes", "yes"]
    own = trained(tmp_path, "CatBoostClassifier", models.people(), answers, ["city"])
    model = await opened(tmp_path)
    metadata = await model.metadata()
    assert described(metadata.inputs) == [("age", "FP64", [-1]), ("city", "BYTES", [-1])]
    frame = models.people()
    given = [
        RequestInput(name="city", datatype="BYTES", shape=[4], data=[*frame.city]),
        RequestInput(name="age", datatype="INT64", shape=[4], data=[*frame.age]),
    ]
    found = model.predict(InferenceRequest(inputs=given))
    assert found.outputs[0].data.flat() == [*own.predict(frame)]
    reordered = asked(frame[["city", "age"]], "predict_proba", codec=PandasCodec)
    assert np.allclose(arrays(model.predict(reordered))["predict_proba"], own.predict_proba(frame))
    with pytest.raises(InvalidRequest, match='column "city" is missing; the model has age, city'):
        model.predict(InferenceRequest(inputs=given[1:]))
    given[1] = RequestInput(name="age", datatype="BYTES", shape=[4], data=["old"] * 4)
    with pytest.raises(InvalidRequest, match=r'column "age" takes numbers'):
        model.predict(InferenceRequest(inputs=given))


@pytest.mark.parametrize("shape", [(150, 3), (150,), (2, 2, 4)])
async def test_wrong_shape_names_input(tmp_path, shape: tuple[int, ...]) -> None:
    trained(tmp_path, "CatBoostClassifier", FLOWERS, SPECIES)
    model = await opened(tmp_path)
    request = asked(np.zeros(shape))
    request.inputs[0].shape = [*shape]
    with pytest.raises(InvalidRequest, match=r'input "input-1": the model takes shape \[-1, 4\], got'):
        model.predict(request)


@pytest.mark.parametrize(("extra", "threads"), [({}, 1), ({"n_jobs": 2}, 2)])
async def test_prediction_uses_one_thread_by_default(tmp_path, extra: dict, threads: int) -> None:
    trained(tmp_path, "CatBoostClassifier", FLOWERS, SPECIES)
    model = await opened(tmp_path, **extra)
    assert {each.keywords["thread_count"] for each in model._functions.values()} == {threads}  # type: ignore[attr-defined]


async def test_wrong_file_error_hides_folder(tmp_path) -> None:
    (tmp_path / "model.cbm").write_text("hello")
    with pytest.raises(ModelLoadFailed, match=r"CatBoost \S+ cannot read model\.cbm") as failed:
        await opened(tmp_path)
    assert str(tmp_path) not in failed.value.message


async def test_folder_and_mlserver_names_select_runtime(tmp_path) -> None:
    trained(tmp_path, "CatBoostClassifier", FLOWERS, SPECIES)
    [found] = await FolderRepository(tmp_path).list()
    names = ("mlserver_catboost.CatboostModel", "mlserver_catboost.catboost.CatboostModel")
    named = [ModelSettings(name="m", implementation=name) for name in names]
    assert {settings.implementation for settings in (found, *named)} == {CatBoostModel}
