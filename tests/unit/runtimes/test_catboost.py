"""CatBoost's models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

catboost = pytest.importorskip("catboost")

from inferstream.codecs import PandasCodec
from inferstream.errors import InvalidRequest, ModelLoadFailed
from inferstream.imports.implementation import resolve_class
from inferstream.repository.artefacts import described_by_files
from inferstream.runtimes.base import Runtime
from inferstream.runtimes.catboost import CatBoostModel
from inferstream.types import InferenceRequest, RequestInput
from tests.unit.runtimes import models
from tests.unit.runtimes.fitted import arrays, asked, loaded

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


async def test_a_classifier_answers_classes_and_probabilities(tmp_path) -> None:
    own = trained(tmp_path, "CatBoostClassifier", FLOWERS, SPECIES)
    model = await opened(tmp_path)
    found = arrays(model.predict(asked(FLOWERS, "predict", "predict_proba")))
    assert (found["predict"] == own.predict(FLOWERS)).all()
    assert np.allclose(found["predict_proba"], own.predict_proba(FLOWERS))
    metadata = await model.metadata()
    assert described(metadata.inputs) == [("features", "FP64", [-1, 4])]
    assert described(metadata.outputs) == [("predict", "INT64", [-1, 1]), ("predict_proba", "FP64", [-1, 3])]
    assert metadata.outputs[1].parameters.classes == "[0,1,2]"


async def test_numbers_have_no_probabilities(tmp_path) -> None:
    own = trained(tmp_path, "CatBoostRegressor", FLOWERS, SPECIES.astype(float))
    model = await opened(tmp_path)
    assert np.allclose(arrays(model.predict(asked(FLOWERS)))["predict"][:, 0], own.predict(FLOWERS))
    assert described((await model.metadata()).outputs) == [("predict", "FP64", [-1, 1])]
    with pytest.raises(
        InvalidRequest, match='output "predict_proba" is not one of the model\'s outputs: predict'
    ):
        model.predict(asked(FLOWERS, "predict_proba"))


async def test_several_numbers_for_a_row_are_served_and_not_described(tmp_path) -> None:
    targets = np.column_stack([SPECIES, SPECIES]).astype(float)
    trained(tmp_path, "CatBoostRegressor", FLOWERS, targets, loss_function="MultiRMSE")
    model = await opened(tmp_path)
    assert arrays(model.predict(asked(FLOWERS)))["predict"].shape == (150, 2)
    assert (await model.metadata()).outputs == []


async def test_columns_come_by_name_and_categories_as_texts(tmp_path) -> None:
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
async def test_a_wrong_shape_names_the_input(tmp_path, shape: tuple[int, ...]) -> None:
    trained(tmp_path, "CatBoostClassifier", FLOWERS, SPECIES)
    model = await opened(tmp_path)
    request = asked(np.zeros(shape))
    request.inputs[0].shape = [*shape]
    with pytest.raises(InvalidRequest, match=r'input "input-1": the model takes shape \[-1, 4\], got'):
        model.predict(request)


@pytest.mark.parametrize(("extra", "threads"), [({}, 1), ({"n_jobs": 2}, 2)])
async def test_a_prediction_takes_one_thread_unless_told(tmp_path, extra: dict, threads: int) -> None:
    trained(tmp_path, "CatBoostClassifier", FLOWERS, SPECIES)
    model = await opened(tmp_path, **extra)
    assert {each.keywords["thread_count"] for each in model._functions.values()} == {threads}  # type: ignore[attr-defined]


async def test_a_file_of_something_else_is_named_without_its_folder(tmp_path) -> None:
    (tmp_path / "model.cbm").write_text("hello")
    with pytest.raises(ModelLoadFailed, match=r"CatBoost \S+ cannot read model\.cbm") as failed:
        await opened(tmp_path)
    assert str(tmp_path) not in failed.value.message


def test_a_folder_and_mlservers_names_mean_this_runtime(tmp_path) -> None:
    trained(tmp_path, "CatBoostClassifier", FLOWERS, SPECIES)
    path = described_by_files(tmp_path)["implementation"]
    names = ("mlserver_catboost.CatboostModel", "mlserver_catboost.catboost.CatboostModel")
    assert {resolve_class(name, None) for name in (path, *names)} == {CatBoostModel}
