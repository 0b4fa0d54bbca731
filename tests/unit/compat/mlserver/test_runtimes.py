"""MLServer's runtimes by name, as model code subclasses them, where their wheels are not installed."""

import asyncio
import importlib
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from inferstream import compat
from inferstream.codecs import NumpyCodec, NumpyRequestCodec
from inferstream.imports.implementation import resolve_class
from inferstream.settings import ModelSettings
from inferstream.types import InferenceRequest, RequestOutput
from tests.unit.runtimes import models

CLASSES = {"sklearn": "SKLearnModel", "xgboost": "XGBoostModel", "lightgbm": "LightGBMModel"}
NAMES = {
    "sklearn": "PREDICT_FN_KEY PREDICT_OUTPUT PREDICT_PROBA_OUTPUT PREDICT_TRANSFORM VALID_OUTPUTS",
    "xgboost": "PREDICT_OUTPUT PREDICT_PROBA_OUTPUT VALID_OUTPUTS",
    "lightgbm": "",
}


@pytest.fixture(autouse=True)
def _installed() -> None:
    compat.install()


def package(kind: str) -> ModuleType:
    return importlib.import_module(f"mlserver_{kind}")


async def loaded(kind: str, folder: Path, base: type[Any] | None = None, **settings: Any) -> Any:
    if kind == "sklearn":
        models.dumped(models.classifier(), folder)
    elif kind == "xgboost":
        models.boosted("XGBClassifier", folder, "model.json")
    else:
        models.light(folder)
    cls = base or getattr(package(kind), CLASSES[kind])
    model = cls(ModelSettings(name="m", implementation=cls, parameters={"uri": str(folder)}, **settings))
    model.ready = await model.load()
    return model


def asked(*outputs: str) -> InferenceRequest:
    request = NumpyRequestCodec.encode_request(models.FLOWERS)
    request.outputs = [RequestOutput(name=name) for name in outputs]
    return request


@pytest.mark.parametrize("kind", CLASSES)
def test_the_names_of_their_modules_are_there(kind: str) -> None:
    module = importlib.import_module(f"mlserver_{kind}.{kind}")
    for name in ["WELLKNOWN_MODEL_FILENAMES", CLASSES[kind], *NAMES[kind].split()]:
        assert hasattr(module, name), name
    assert getattr(package(kind), CLASSES[kind]) is getattr(module, CLASSES[kind])


@pytest.mark.parametrize("kind", CLASSES)
async def test_predict_is_awaited_and_the_artefact_is_its_model(tmp_path, kind: str) -> None:
    model = await loaded(kind, tmp_path)
    response = await model.predict(asked())
    assert [output.name for output in response.outputs] == ["predict"]
    assert model.ready
    assert type(model._model).__name__ in ("LogisticRegression", "XGBClassifier", "Booster")


@pytest.mark.parametrize("kind", ["sklearn", "xgboost"])
async def test_an_output_it_lacks_is_mlservers_error(tmp_path, kind: str) -> None:
    from mlserver.errors import InferenceError

    model = await loaded(kind, tmp_path)
    with pytest.raises(InferenceError, match="something_else"):
        await model.predict(asked("something_else"))


async def test_lightgbm_answers_its_one_output_whatever_is_asked_for(tmp_path) -> None:
    model = await loaded("lightgbm", tmp_path)
    response = await model.predict(asked("predict", "predict_proba"))
    assert [output.name for output in response.outputs] == ["predict"]


async def test_a_subclass_may_put_another_model_in_its_place(tmp_path) -> None:
    class Own(package("sklearn").SKLearnModel):  # type: ignore[misc]
        async def load(self) -> bool:
            self._model = models.regressor()
            return True

    model = await loaded("sklearn", tmp_path, Own)
    response = await model.predict(asked())
    found = NumpyCodec.decode_output(response.outputs[0])
    assert (found[:, 0] == models.regressor().predict(models.FLOWERS)).all()


async def test_data_frames_are_answered_alone(tmp_path) -> None:
    from mlserver.errors import InferenceError

    class Frames:
        def predict(self, values: Any) -> Any:
            return models.people()

        predict_proba = predict

    model = await loaded("sklearn", tmp_path)
    model._model = Frames()
    with pytest.raises(InferenceError, match="Cannot encode"):
        await model.predict(asked("predict", "predict_proba"))


async def test_as_many_predictions_run_at_once_as_there_are_threads(tmp_path) -> None:
    running, most, full = 0, 0, threading.Barrier(2, timeout=20)
    lock = threading.Lock()

    class Counting:
        def predict(self, values: Any) -> Any:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            full.wait()
            with lock:
                running -= 1
            return values[:, 0]

    model = await loaded("sklearn", tmp_path, threads=2)
    model._model = Counting()
    await asyncio.gather(*(model.predict(asked()) for _ in range(8)))
    assert most == 2


def test_a_settings_file_that_names_one_gets_the_runtime_itself(tmp_path) -> None:
    found = resolve_class("mlserver_sklearn.SKLearnModel", str(tmp_path / "model-settings.json"))
    assert found is resolve_class("inferstream.runtimes.sklearn.SKLearnModel", None)


def test_an_installed_wheel_goes_first_and_a_folder_of_that_name_does_not(tmp_path) -> None:
    (tmp_path / "mlserver_xgboost").mkdir()  # a model's folder: no code, but Python would make it a package
    wheel = tmp_path / "wheel" / "mlserver_sklearn"
    wheel.mkdir(parents=True)
    (wheel / "__init__.py").write_text("real = True")
    code = (
        f"import sys; sys.path += {[str(tmp_path), str(wheel.parent)]!r}\n"
        "import inferstream.compat; inferstream.compat.install()\n"
        "import mlserver_sklearn; assert mlserver_sklearn.real\n"
        "from mlserver_xgboost import XGBoostModel\n"
        "assert not {'sklearn', 'xgboost', 'pandas', 'fastapi'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
