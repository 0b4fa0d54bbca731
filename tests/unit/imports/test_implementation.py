"""Where a settings file's `implementation` is looked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.imports.implementation import resolve_class

OURS = {
    "mlserver_sklearn.SKLearnModel": "inferstream.plugins.frameworks.sklearn.SKLearnModel",
    "mlserver_sklearn.sklearn.SKLearnModel": "inferstream.plugins.frameworks.sklearn.SKLearnModel",
    "mlserver_xgboost.XGBoostModel": "inferstream.plugins.frameworks.xgboost.XGBoostModel",
    "mlserver_xgboost.xgboost.XGBoostModel": "inferstream.plugins.frameworks.xgboost.XGBoostModel",
    "mlserver_catboost.CatboostModel": "inferstream.plugins.frameworks.catboost.CatBoostModel",
    "mlserver_catboost.catboost.CatboostModel": "inferstream.plugins.frameworks.catboost.CatBoostModel",
    "mlserver_mlflow.MLflowRuntime": "inferstream.plugins.frameworks.mlflow.MLflowModel",
    "mlserver_mlflow.runtime.MLflowRuntime": "inferstream.plugins.frameworks.mlflow.MLflowModel",
    "mlserver_onnx.OnnxModel": "inferstream.plugins.mlserver.onnx.MLServerOnnxModel",
    "mlserver_onnx.onnx.OnnxModel": "inferstream.plugins.mlserver.onnx.MLServerOnnxModel",
    "mlserver_lightgbm.LightGBMModel": "inferstream.plugins.frameworks.lightgbm.LightGBMModel",
    "mlserver_lightgbm.lightgbm.LightGBMModel": "inferstream.plugins.frameworks.lightgbm.LightGBMModel",
    "mlserver_huggingface.HuggingFaceRuntime": "inferstream.plugins.llm.huggingface.HuggingFaceRuntime",
    "mlserver_huggingface.runtime.HuggingFaceRuntime": "inferstream.plugins.llm.huggingface.HuggingFaceRuntime",
}


@pytest.fixture
def settings_file(tmp_path: Path) -> str:
    return str(tmp_path / "model-settings.json")


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders stay at the end of `sys.path`, where other tests would find what these have written there."""
    monkeypatch.setattr(sys, "path", sys.path.copy())


@pytest.mark.parametrize(("theirs", "ours"), OURS.items())
def test_mlserver_runtime_names_resolve_to_inferstream_runtimes(
    settings_file: str, theirs: str, ours: str
) -> None:
    assert resolve_class(theirs, settings_file) is resolve_class(ours, settings_file)


def test_finding_a_runtime_does_not_import_the_framework() -> None:
    code = f"""
import sys
from inferstream.imports.implementation import resolve_class
for name in {list(OURS)}:
    resolve_class(name, None)
print([name for name in ("sklearn", "joblib", "xgboost", "lightgbm", "pandas", "torch", "transformers") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_installed_mlserver_runtime_package_takes_precedence(tmp_path: Path, settings_file: str) -> None:
    (tmp_path / "mlserver_sklearn.py").write_text("class SKLearnModel: theirs = True")
    try:
        assert resolve_class("mlserver_sklearn.SKLearnModel", settings_file).theirs
    finally:
        sys.modules.pop("mlserver_sklearn", None)


def test_runtime_alias_may_be_in_its_extension_module(installed, tmp_path: Path, settings_file: str) -> None:
    (tmp_path / "threshold.py").write_text(
        "from inferstream.ext import Extension\n"
        "class _Runtime: ...\n"
        "extension = Extension('threshold', runtimes={'threshold.Model': 'threshold:_Runtime'})\n"
    )
    installed(p="[inferstream.extensions]\nthreshold = threshold:extension\n")
    try:
        assert resolve_class("threshold.Model", settings_file).__name__ == "_Runtime"
        with pytest.raises(InvalidSettings, match="module threshold has no class Other"):
            resolve_class("threshold.Other", settings_file)
    finally:
        sys.modules.pop("threshold", None)


def test_import_error_in_a_runtime_package_is_raised(tmp_path: Path, settings_file: str) -> None:
    (tmp_path / "mlserver_xgboost.py").write_text("import no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        resolve_class("mlserver_xgboost.XGBoostModel", settings_file)


def test_missing_module_is_named(settings_file: str) -> None:
    with pytest.raises(InvalidSettings, match="there is no module no_such_module beside"):
        resolve_class("no_such_module.Model", settings_file)
