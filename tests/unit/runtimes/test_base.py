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

from inferstream.codecs import PandasCodec, StringRequestCodec
from inferstream.errors import InvalidModelURI, InvalidRequest, ModelLoadFailed
from inferstream.plugins.frameworks.lightgbm import LightGBMModel
from inferstream.plugins.frameworks.sklearn import SKLearnModel
from inferstream.plugins.frameworks.xgboost import XGBoostModel
from inferstream.runtimes.base import Runtime
from inferstream.settings import ModelSettings
from tests.artefacts import models
from tests.artefacts.fitted import arrays, asked, fitted, loaded, of_kind

FLOWERS = models.FLOWERS


async def test_default_output_is_predict(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path)
    response = model.predict(asked(FLOWERS))
    assert (response.model_name, response.model_version) == ("m", "1")
    assert [(o.name, o.shape, o.datatype) for o in response.outputs] == [("predict", [150, 1], "INT64")]
    assert (arrays(response)["predict"][:, 0] == models.classifier().predict(FLOWERS)).all()


async def test_outputs_are_returned_in_requested_order(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path)
    found = arrays(model.predict(asked(FLOWERS, "predict_proba", "predict")))
    assert list(found) == ["predict_proba", "predict"]
    assert np.allclose(found["predict_proba"], models.classifier().predict_proba(FLOWERS))


async def test_predict_fn_may_be_any_method_and_is_the_default_output(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path, predict_fn="decision_function")
    assert list(arrays(model.predict(asked(FLOWERS)))) == ["decision_function"]
    assert list(arrays(model.predict(asked(FLOWERS, "predict")))) == ["predict"]


@pytest.mark.parametrize("wanted", ["predict_proba", "transform", "fit", "__class__", ""])
async def test_missing_output_is_a_client_error(tmp_path, wanted: str) -> None:
    model = await fitted(models.regressor(), tmp_path)
    with pytest.raises(
        InvalidRequest, match=f'output "{wanted}" is not one of the model\'s outputs: predict'
    ):
        model.predict(asked(FLOWERS, wanted))


async def test_data_frame_output_must_be_the_only_one(tmp_path) -> None:
    model = await fitted(models.frame_scaler(), tmp_path, predict_fn="inverse_transform")
    frame = models.people()[["age"]].assign(height=160.0)
    with pytest.raises(InvalidRequest, match='output "transform" is a data frame'):
        model.predict(asked(frame, "transform", "inverse_transform", codec=PandasCodec))


@pytest.mark.parametrize("shape", [(150, 3), (150,), (2, 2, 4)])
@pytest.mark.parametrize("kind", ["sklearn", "xgboost", "lightgbm"])
async def test_wrong_shape_names_the_input(tmp_path, kind: str, shape: tuple[int, ...]) -> None:
    model = await of_kind(kind, tmp_path)
    message = rf'input "input-1": the model takes shape \[-1, 4\], got \[{", ".join(map(str, shape))}\]'
    request = asked(np.zeros(shape))
    request.inputs[0].shape = list(shape)
    with pytest.raises(InvalidRequest, match=message):
        model.predict(request)


async def test_string_input_for_a_numeric_model_is_a_client_error(tmp_path) -> None:
    for kind in ("sklearn", "xgboost", "lightgbm"):
        with pytest.raises(
            InvalidRequest, match=r'input "input-1": the model takes shape \[-1, 4\], got \[2\]'
        ):
            (await of_kind(kind, tmp_path)).predict(asked(["a", "b"], codec=StringRequestCodec))


@pytest.mark.parametrize("kind", ["sklearn", "xgboost", "lightgbm"])
async def test_concurrent_predictions_give_the_same_result(tmp_path, kind: str) -> None:
    model = await of_kind(kind, tmp_path)

    def rows(start: int) -> Any:
        return arrays(model.predict(asked(FLOWERS[start : start + 5])))["predict"]

    starts = [*range(0, 150, 5)] * 20
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(rows, starts))
    expected = {start: rows(start) for start in set(starts)}
    assert all((array == expected[start]).all() for start, array in zip(starts, found, strict=True))


@pytest.mark.parametrize(("extra", "threads"), [({}, 1), ({"n_jobs": 2}, 2)])
async def test_prediction_uses_one_thread_by_default(tmp_path, extra: dict, threads: int) -> None:
    forest = await fitted(models.forest(), tmp_path, **extra)
    assert forest._functions["predict"].__self__.n_jobs == threads  # type: ignore[attr-defined]
    path = models.boosted("XGBRegressor", tmp_path, "model.json")
    boosted = await loaded(XGBoostModel, path, **extra)
    assert boosted._functions["predict"].__self__.n_jobs == threads  # type: ignore[attr-defined]
    light = await loaded(LightGBMModel, models.light(tmp_path), **extra)
    assert light._functions["predict"].keywords == {"num_threads": threads}  # type: ignore[attr-defined]


async def test_raw_tensors_are_passed_to_the_framework_without_a_copy(tmp_path) -> None:
    model = await fitted(models.classifier(), tmp_path)
    seen: list[Any] = []
    model._functions["predict"] = lambda features: seen.append(features) or features
    request = asked(FLOWERS)
    response = model.predict(request)
    assert np.shares_memory(seen[0], FLOWERS)
    assert np.shares_memory(response.outputs[0].data.array, FLOWERS)


async def test_missing_file_is_named(tmp_path) -> None:
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


async def test_invalid_file_is_named_without_its_folder(tmp_path) -> None:
    (tmp_path / "model.bst").write_text("hello")
    for runtime, framework in {XGBoostModel: "XGBoost", LightGBMModel: "LightGBM"}.items():
        with pytest.raises(ModelLoadFailed, match=rf"{framework} \S+ cannot read model\.bst") as failed:
            await loaded(runtime, tmp_path)
        assert str(tmp_path) not in failed.value.message
    with pytest.raises(ModelLoadFailed, match="a dict has no predict, predict_proba or transform"):
        await fitted({}, tmp_path)


async def test_invalid_settings_are_named(tmp_path) -> None:
    with pytest.raises(ModelLoadFailed, match='predict_fn "guess" is no method of a LinearRegression, which'):
        await fitted(models.regressor(), tmp_path, predict_fn="guess")
    with pytest.raises(ModelLoadFailed, match=r'"n_jobs" in parameters\.extra is a number'):
        await fitted(models.regressor(), tmp_path, n_jobs="many")


@pytest.mark.parametrize(
    ("runtime", "package"),
    [(SKLearnModel, "sklearn"), (XGBoostModel, "xgboost"), (LightGBMModel, "lightgbm")],
)
async def test_missing_framework_error_explains_installation(
    tmp_path, monkeypatch, runtime: type[Runtime], package: str
) -> None:
    for name in runtime.artefacts:
        (tmp_path / name).touch()

    def missing(name: str) -> Any:
        if name == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return __import__(name)

    monkeypatch.setattr("inferstream.runtimes.framework.import_module", missing)
    with pytest.raises(ModelLoadFailed, match=rf'needs {package}, .* hint: pip install ".*{package[-5:]}'):
        await loaded(runtime, tmp_path)


async def test_imports_while_reading_artefacts_are_serialized(tmp_path, monkeypatch) -> None:
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
