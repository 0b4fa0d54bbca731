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

from inferstream import ModelSettings
from inferstream.codecs import NumpyCodec, NumpyRequestCodec
from inferstream.ext.hosting import install_aliases
from inferstream.plugins.frameworks.sklearn import SKLearnModel
from inferstream.types import InferenceRequest, RequestOutput
from tests.artefacts import models

CLASSES = {
    "sklearn": "SKLearnModel",
    "xgboost": "XGBoostModel",
    "lightgbm": "LightGBMModel",
    "catboost": "CatboostModel",
}
NAMES = {
    "sklearn": "PREDICT_FN_KEY PREDICT_OUTPUT PREDICT_PROBA_OUTPUT PREDICT_TRANSFORM VALID_OUTPUTS",
    "xgboost": "PREDICT_OUTPUT PREDICT_PROBA_OUTPUT VALID_OUTPUTS",
    "lightgbm": "",
    "catboost": "",
}


@pytest.fixture(autouse=True)
def _installed() -> None:
    install_aliases()


def package(kind: str) -> ModuleType:
    return importlib.import_module(f"mlserver_{kind}")


async def loaded(kind: str, folder: Path, base: type[Any] | None = None, **settings: Any) -> Any:
    if kind == "sklearn":
        models.dumped(models.classifier(), folder)
    elif kind == "xgboost":
        models.boosted("XGBClassifier", folder, "model.json")
    elif kind == "catboost":
        own = pytest.importorskip("catboost").CatBoostClassifier(
            iterations=5, silent=True, allow_writing_files=False
        )
        own.fit(models.FLOWERS, models.SPECIES).save_model(folder / "model.cbm")
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
def test_runtime_module_names_exist(kind: str) -> None:
    module = importlib.import_module(f"mlserver_{kind}.{kind}")
    for name in ["WELLKNOWN_MODEL_FILENAMES", CLASSES[kind], *NAMES[kind].split()]:
        assert hasattr(module, name), name
    assert getattr(package(kind), CLASSES[kind]) is getattr(module, CLASSES[kind])


@pytest.mark.parametrize("kind", CLASSES)
async def test_predict_is_async_and_model_is_the_artefact(tmp_path, kind: str) -> None:
    model = await loaded(kind, tmp_path)
    response = await model.predict(asked())
    assert [output.name for output in response.outputs] == ["predict"]
    assert model.ready
    assert type(model._model).__name__ in (
        "LogisticRegression",
        "XGBClassifier",
        "Booster",
        "CatBoostClassifier",
    )


@pytest.mark.parametrize("kind", ["sklearn", "xgboost"])
async def test_missing_output_is_mlserver_error(tmp_path, kind: str) -> None:
    from mlserver.errors import InferenceError

    model = await loaded(kind, tmp_path)
    with pytest.raises(InferenceError, match="something_else"):
        await model.predict(asked("something_else"))


async def test_lightgbm_returns_its_only_output_for_any_request(tmp_path) -> None:
    model = await loaded("lightgbm", tmp_path)
    response = await model.predict(asked("predict", "predict_proba"))
    assert [output.name for output in response.outputs] == ["predict"]


async def test_subclass_can_replace_model(tmp_path) -> None:
    class Own(package("sklearn").SKLearnModel):  # type: ignore[misc]
        async def load(self) -> bool:
            self._model = models.regressor()
            return True

    model = await loaded("sklearn", tmp_path, Own)
    response = await model.predict(asked())
    found = NumpyCodec.decode_output(response.outputs[0])
    assert (found[:, 0] == models.regressor().predict(models.FLOWERS)).all()


async def test_data_frames_are_not_batched(tmp_path) -> None:
    from mlserver.errors import InferenceError

    class Frames:
        def predict(self, values: Any) -> Any:
            return models.people()

        predict_proba = predict

    model = await loaded("sklearn", tmp_path)
    model._model = Frames()
    with pytest.raises(InferenceError, match="Cannot encode"):
        await model.predict(asked("predict", "predict_proba"))


async def test_predictions_run_on_all_threads(tmp_path) -> None:
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


def test_settings_file_selects_runtime_itself(tmp_path) -> None:
    path = tmp_path / "model-settings.json"
    path.write_text('{"implementation": "mlserver_sklearn.SKLearnModel"}')
    assert ModelSettings.parse_file(path).implementation is SKLearnModel


def test_installed_wheel_takes_precedence_over_runtime(tmp_path) -> None:
    (tmp_path / "mlserver_xgboost").mkdir()  # a model's folder: no code, but Python would make it a package
    wheel = tmp_path / "wheel" / "mlserver_sklearn"
    wheel.mkdir(parents=True)
    (wheel / "__init__.py").write_text("real = True")
    code = (
        f"import sys; sys.path += {[str(tmp_path), str(wheel.parent)]!r}\n"
        "from inferstream.ext.hosting import install_aliases; install_aliases()\n"
        "import mlserver_sklearn; assert mlserver_sklearn.real\n"
        "from mlserver_xgboost import XGBoostModel\n"
        "assert not {'sklearn', 'xgboost', 'pandas', 'fastapi'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
