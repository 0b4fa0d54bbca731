"""Where a settings file's `implementation` is looked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.imports.implementation import resolve_class

OURS = {
    "mlserver_sklearn.SKLearnModel": "inferstream.runtimes.sklearn.SKLearnModel",
    "mlserver_sklearn.sklearn.SKLearnModel": "inferstream.runtimes.sklearn.SKLearnModel",
    "mlserver_xgboost.XGBoostModel": "inferstream.runtimes.xgboost.XGBoostModel",
    "mlserver_xgboost.xgboost.XGBoostModel": "inferstream.runtimes.xgboost.XGBoostModel",
    "mlserver_catboost.CatboostModel": "inferstream.runtimes.catboost.CatBoostModel",
    "mlserver_catboost.catboost.CatboostModel": "inferstream.runtimes.catboost.CatBoostModel",
    "mlserver_mlflow.MLflowRuntime": "inferstream.runtimes.mlflow.MLflowModel",
    "mlserver_mlflow.runtime.MLflowRuntime": "inferstream.runtimes.mlflow.MLflowModel",
    "mlserver_onnx.OnnxModel": "inferstream.runtimes.onnx.OnnxModel",
    "mlserver_lightgbm.LightGBMModel": "inferstream.runtimes.lightgbm.LightGBMModel",
    "mlserver_lightgbm.lightgbm.LightGBMModel": "inferstream.runtimes.lightgbm.LightGBMModel",
    "mlserver_huggingface.HuggingFaceRuntime": "inferstream.runtimes.huggingface.HuggingFaceRuntime",
    "mlserver_huggingface.runtime.HuggingFaceRuntime": "inferstream.runtimes.huggingface.HuggingFaceRuntime",
}


@pytest.fixture
def settings_file(tmp_path: Path) -> str:
    return str(tmp_path / "model-settings.json")


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders stay at the end of `sys.path`, where other tests would find what these have written there."""
    monkeypatch.setattr(sys, "path", sys.path.copy())


@pytest.mark.parametrize(("theirs", "ours"), OURS.items())
def test_mlservers_names_of_runtimes_are_ours(settings_file: str, theirs: str, ours: str) -> None:
    assert resolve_class(theirs, settings_file) is resolve_class(ours, settings_file)


def test_finding_a_runtime_imports_no_framework() -> None:
    code = f"""
import sys
from inferstream.imports.implementation import resolve_class
for name in {list(OURS)}:
    resolve_class(name, None)
print([name for name in ("sklearn", "joblib", "xgboost", "lightgbm", "pandas", "torch", "transformers") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_a_package_of_mlservers_name_goes_before_ours(tmp_path: Path, settings_file: str) -> None:
    (tmp_path / "mlserver_sklearn.py").write_text("class SKLearnModel: theirs = True")
    try:
        assert resolve_class("mlserver_sklearn.SKLearnModel", settings_file).theirs
    finally:
        sys.modules.pop("mlserver_sklearn", None)


def test_what_such_a_package_misses_is_its_own_failure(tmp_path: Path, settings_file: str) -> None:
    (tmp_path / "mlserver_xgboost.py").write_text("import no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        resolve_class("mlserver_xgboost.XGBoostModel", settings_file)


def test_a_module_that_is_nowhere_is_named(settings_file: str) -> None:
    with pytest.raises(InvalidSettings, match="there is no module no_such_module beside"):
        resolve_class("no_such_module.Model", settings_file)
