"""Each runtime reads what its framework wrote, answers what is asked for, and says what it cannot."""

import asyncio
import builtins
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferstream.codecs import NumpyCodec, NumpyRequestCodec, PandasCodec, StringRequestCodec
from inferstream.dataplane.execution.local import Local
from inferstream.errors import InvalidModelURI, InvalidRequest, ModelLoadFailed
from inferstream.runtimes.base import Runtime
from inferstream.runtimes.lightgbm import LightGBMModel
from inferstream.runtimes.sklearn import SKLearnModel
from inferstream.runtimes.xgboost import XGBoostModel
from inferstream.settings import ModelSettings
from inferstream.types import InferenceRequest, InferenceResponse, RequestOutput
from tests.unit.runtimes import models

FLOWERS = models.FLOWERS


async def loaded(runtime: type[Runtime], uri: Path | None, **extra: Any) -> Runtime:
    parameters = {"version": "1", "extra": extra, **({"uri": str(uri)} if uri else {})}
    model = runtime(ModelSettings(name="m", implementation=runtime, parameters=parameters))
    assert await model.load() is True
    return model


async def fitted(model: Any, folder: Path, **extra: Any) -> Runtime:
    return await loaded(SKLearnModel, models.dumped(model, folder), **extra)


def asked(payload: Any, *outputs: str, codec: Any = NumpyRequestCodec) -> InferenceRequest:
    request = codec.encode_request(payload)
    request.outputs = [RequestOutput(name=name) for name in outputs] or None
    return request


def arrays(response: InferenceResponse) -> dict[str, Any]:
    return {output.name: NumpyCodec.decode_output(output) for output in response.outputs}


async def test_the_default_output_is_predict(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path)
    response = model.predict(asked(FLOWERS))
    assert (response.model_name, response.model_version) == ("m", "1")
    assert [(o.name, o.shape, o.datatype) for o in response.outputs] == [("predict", [150, 1], "INT64")]
    assert (arrays(response)["predict"][:, 0] == models.classifier().predict(FLOWERS)).all()


async def test_outputs_come_as_asked_for_and_in_that_order(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path)
    found = arrays(model.predict(asked(FLOWERS, "predict_proba", "predict")))
    assert list(found) == ["predict_proba", "predict"]
    assert np.allclose(found["predict_proba"], models.classifier().predict_proba(FLOWERS))


async def test_predict_fn_is_the_default_output_and_may_be_any_method(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path, predict_fn="decision_function")
    assert list(arrays(model.predict(asked(FLOWERS)))) == ["decision_function"]
    assert list(arrays(model.predict(asked(FLOWERS, "predict")))) == ["predict"]


@pytest.mark.parametrize("wanted", ["predict_proba", "transform", "fit", "__class__", ""])
async def test_an_output_the_model_does_not_have_is_the_clients_error(tmp_path, wanted: str) -> None:
    model = await fitted(models.regressor(), tmp_path)
    with pytest.raises(
        InvalidRequest, match=f'output "{wanted}" is not one of the model\'s outputs: predict'
    ):
        model.predict(asked(FLOWERS, wanted))


async def test_a_vectorizer_answers_dense_arrays_of_texts(tmp_path) -> None:
    model = await fitted(models.vectorizer(), tmp_path, predict_fn="transform")
    request = asked(["good day", "night"], codec=StringRequestCodec)
    assert arrays(model.predict(request))["transform"].shape == (2, 4)


async def test_texts_in_texts_out(tmp_path) -> None:
    model = await fitted(models.text_classifier(), tmp_path)
    response = model.predict(asked(["good day", "bad night"], codec=StringRequestCodec))
    assert response.outputs[0].data.flat() == [b"fine", b"sad"]


async def test_a_data_frame_goes_into_a_pipeline(tmp_path) -> None:
    model = await fitted(models.frame_pipeline(), tmp_path)
    request = asked(models.people(), "predict", "predict_proba", codec=PandasCodec)
    assert arrays(model.predict(request))["predict"][:, 0].tolist() == [0, 0, 1, 1]


async def test_a_data_frame_is_answered_as_its_columns(tmp_path) -> None:
    model = await fitted(models.frame_scaler(), tmp_path)
    frame = models.people()[["age"]].assign(height=160.0)
    response = model.predict(asked(frame, "transform", codec=PandasCodec))
    assert [output.name for output in response.outputs] == ["age", "height"]
    assert PandasCodec.decode_response(response).equals(models.frame_scaler().transform(frame))


async def test_a_data_frame_is_answered_alone(tmp_path) -> None:
    model = await fitted(models.frame_scaler(), tmp_path, predict_fn="inverse_transform")
    frame = models.people()[["age"]].assign(height=160.0)
    with pytest.raises(InvalidRequest, match='output "transform" is a data frame'):
        model.predict(asked(frame, "transform", "inverse_transform", codec=PandasCodec))


@pytest.mark.parametrize("shape", [(150, 3), (150,), (2, 2, 4)])
@pytest.mark.parametrize("kind", ["sklearn", "xgboost", "lightgbm"])
async def test_a_wrong_shape_names_the_input(tmp_path, kind: str, shape: tuple[int, ...]) -> None:
    model = await of_kind(kind, tmp_path)
    message = rf'input "input-1": the model takes shape \[-1, 4\], got \[{", ".join(map(str, shape))}\]'
    request = asked(np.zeros(shape))
    request.inputs[0].shape = list(shape)
    with pytest.raises(InvalidRequest, match=message):
        model.predict(request)


async def test_texts_for_a_model_of_numbers_are_the_clients_error(tmp_path) -> None:
    for kind in ("sklearn", "xgboost", "lightgbm"):
        with pytest.raises(
            InvalidRequest, match=r'input "input-1": the model takes shape \[-1, 4\], got \[2\]'
        ):
            (await of_kind(kind, tmp_path)).predict(asked(["a", "b"], codec=StringRequestCodec))


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
async def test_a_data_frame_of_too_few_columns_is_the_clients_error(tmp_path, kind: str) -> None:
    model = await of_kind(kind, tmp_path)
    with pytest.raises(InvalidRequest, match='inputs "age", "city": '):
        model.predict(asked(models.people().assign(city=1), codec=PandasCodec))


async def of_kind(kind: str, folder: Path) -> Runtime:
    if kind == "sklearn":
        return await fitted(models.classifier(), folder)
    if kind == "xgboost":
        return await loaded(XGBoostModel, models.boosted("XGBClassifier", folder, "model.json"))
    return await loaded(LightGBMModel, models.light(folder))


async def test_what_scikit_learn_refuses_is_the_clients_error(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path)
    with pytest.raises(InvalidRequest, match=r'input "input-1": Input X contains NaN\.'):
        model.predict(asked(np.full((1, 4), np.nan)))
    with pytest.raises(InvalidRequest, match=r'input "input-1": .*could not convert string to float'):
        model.predict(asked(np.array([["a", "b", "c", "d"]])))


async def test_a_missing_column_is_the_clients_error(tmp_path) -> None:
    model = await fitted(models.frame_pipeline(), tmp_path)
    with pytest.raises(InvalidRequest, match=r'input "age": .*city'):
        model.predict(asked(models.people()[["age"]], codec=PandasCodec))


async def test_what_an_authors_own_step_raises_stays_inside(tmp_path) -> None:
    model = await fitted(models.secretive(), tmp_path)
    with pytest.raises(ValueError, match="password") as raised:
        model.predict(asked(np.full((1, 4), np.nan)))
    assert not isinstance(raised.value, InvalidRequest)


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


async def test_lightgbm_answers_a_boosters_predictions(tmp_path) -> None:
    model = await loaded(LightGBMModel, models.light(tmp_path).parent)
    assert arrays(model.predict(asked(FLOWERS)))["predict"].shape == (150, 3)
    assert list(arrays(model.predict(asked(FLOWERS, "predict_proba")))) == ["predict"]


@pytest.mark.parametrize("kind", ["sklearn", "xgboost", "lightgbm"])
async def test_many_threads_get_what_one_gets(tmp_path, kind: str) -> None:
    model = await of_kind(kind, tmp_path)

    def rows(start: int) -> Any:
        return arrays(model.predict(asked(FLOWERS[start : start + 5])))["predict"]

    starts = [*range(0, 150, 5)] * 20
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(rows, starts))
    expected = {start: rows(start) for start in set(starts)}
    assert all((array == expected[start]).all() for start, array in zip(starts, found, strict=True))


async def test_linear_boosters_are_asked_one_at_a_time(tmp_path) -> None:
    path = models.boosted("XGBRegressor", tmp_path, "model.json", booster="gblinear")
    model = await loaded(XGBoostModel, path)
    assert isinstance(model, XGBoostModel)
    assert not hasattr((await of_kind("xgboost", tmp_path))._lock, "locked")  # type: ignore[attr-defined]
    assert model._lock.locked() is False  # type: ignore[attr-defined]
    assert arrays(model.predict(asked(FLOWERS)))["predict"].shape == (150, 1)


@pytest.mark.parametrize(("extra", "threads"), [({}, 1), ({"n_jobs": 2}, 2)])
async def test_a_prediction_takes_one_thread_unless_told(tmp_path, extra: dict, threads: int) -> None:
    forest = await fitted(models.forest(), tmp_path, **extra)
    assert forest._functions["predict"].__self__.n_jobs == threads  # type: ignore[attr-defined]
    path = models.boosted("XGBRegressor", tmp_path, "model.json")
    boosted = await loaded(XGBoostModel, path, **extra)
    assert boosted._functions["predict"].__self__.n_jobs == threads  # type: ignore[attr-defined]
    light = await loaded(LightGBMModel, models.light(tmp_path), **extra)
    assert light._functions["predict"].keywords == {"num_threads": threads}  # type: ignore[attr-defined]


async def test_raw_tensors_are_not_copied_on_their_way_to_the_framework(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path)
    seen: list[Any] = []
    model._functions["predict"] = lambda features: seen.append(features) or features
    request = asked(FLOWERS)
    response = model.predict(request)
    assert np.shares_memory(seen[0], FLOWERS)
    assert np.shares_memory(response.outputs[0].data.array, FLOWERS)


async def test_what_is_not_there_is_named(tmp_path) -> None:
    for runtime, names in {
        SKLearnModel: "model.joblib, model.pickle or model.pkl",
        XGBoostModel: "model.bst, model.json or model.ubj",
        LightGBMModel: "model.bst",
    }.items():
        with pytest.raises(ModelLoadFailed, match=f"Model m did not load: its folder holds no {names}"):
            await loaded(runtime, tmp_path)
        with pytest.raises(InvalidModelURI, match=r"other\.bin"):
            await loaded(runtime, tmp_path / "other.bin")
        with pytest.raises(InvalidModelURI, match="m"):
            await loaded(runtime, None)


async def test_a_file_of_something_else_is_named_without_its_folder(tmp_path) -> None:
    (tmp_path / "model.bst").write_text("hello")
    for runtime, framework in {XGBoostModel: "XGBoost", LightGBMModel: "LightGBM"}.items():
        with pytest.raises(ModelLoadFailed, match=rf"{framework} \S+ cannot read model\.bst") as failed:
            await loaded(runtime, tmp_path)
        assert str(tmp_path) not in failed.value.message
    with pytest.raises(ModelLoadFailed, match="a dict has no predict, predict_proba or transform"):
        await fitted({}, tmp_path)


async def test_wrong_settings_are_named(tmp_path) -> None:
    with pytest.raises(ModelLoadFailed, match='predict_fn "guess" is no method of a LinearRegression, which'):
        await fitted(models.regressor(), tmp_path, predict_fn="guess")
    with pytest.raises(ModelLoadFailed, match=r'"n_jobs" in parameters\.extra is a number'):
        await fitted(models.regressor(), tmp_path, n_jobs="many")


@pytest.mark.parametrize(
    ("runtime", "package"),
    [(SKLearnModel, "sklearn"), (XGBoostModel, "xgboost"), (LightGBMModel, "lightgbm")],
)
async def test_a_framework_that_is_missing_says_how_to_install_it(
    tmp_path, monkeypatch, runtime: type[Runtime], package: str
) -> None:
    for name in runtime.artefacts:
        (tmp_path / name).touch()

    def missing(name: str) -> Any:
        if name == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return __import__(name)

    monkeypatch.setattr("inferstream.runtimes.framework.import_module", missing)
    with pytest.raises(ModelLoadFailed, match=rf'pip install "inferstream\[{package}\]"'):
        await loaded(runtime, tmp_path)


async def test_what_reading_an_artefact_imports_is_imported_alone(tmp_path, monkeypatch) -> None:
    """Two threads that import parts of scikit-learn at once may find each other's half-initialised modules."""
    monkeypatch.syspath_prepend(tmp_path)
    reading: list[int] = []
    both = threading.Barrier(2, timeout=20)

    class Patient(Runtime):
        artefacts = ("model",)

        def open(self, path: Path) -> Any:
            both.wait()  # both are read at once
            name = f"read_{len(self.settings.name)}"
            with (tmp_path / f"{name}.py").open("w") as file:
                file.write("import builtins, time\nassert not builtins.reading_now, 'another is imported'\n")
                file.write("builtins.reading_now.append(1)\ntime.sleep(0.05)\nbuiltins.reading_now.pop()\n")
            import_module(name)
            return models.regressor()

        def features(self, artefact: Any) -> None:
            return None

    monkeypatch.setattr(builtins, "reading_now", reading, raising=False)
    (tmp_path / "model").touch()
    settings = [
        ModelSettings(name=name, implementation=Patient, parameters={"uri": str(tmp_path)})
        for name in ("m", "mm")
    ]
    await asyncio.gather(*(Patient(each).load() for each in settings))


def test_one_prediction_runs_for_each_processor_unless_the_settings_say_otherwise(monkeypatch) -> None:
    monkeypatch.setattr("inferstream.processors.share", lambda: 3)
    cases: list[tuple[dict[str, Any], int, int]] = [
        ({}, 3, 3),
        ({"threads": 5}, 5, 5),
        ({"max_concurrency": 4}, 4, 4),
        ({"threads": 2, "max_concurrency": 8}, 2, 8),
    ]
    for given, threads, slots in cases:
        model = SKLearnModel(ModelSettings(name="m", implementation=SKLearnModel, **given))
        assert (model.settings.threads, Local(model).slots.count) == (threads, slots), given
