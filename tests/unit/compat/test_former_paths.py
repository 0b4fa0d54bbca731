"""Import paths from before the plug-ins had folders, which users have written in code, settings and pickles."""

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import inferstream
from inferstream import ModelSettings

FRAMEWORKS, LLM = "inferstream.plugins.frameworks", "inferstream.plugins.llm"

CLASSES = {
    "catboost.CatBoostModel": FRAMEWORKS,
    "lightgbm.LightGBMModel": FRAMEWORKS,
    "mlflow.MLflowModel": FRAMEWORKS,
    "onnx.OnnxModel": FRAMEWORKS,
    "sklearn.SKLearnModel": FRAMEWORKS,
    "torch.TorchModel": FRAMEWORKS,
    "xgboost.XGBoostModel": FRAMEWORKS,
    "embeddings.EmbeddingsModel": LLM,
    "huggingface.HuggingFaceRuntime": LLM,
    "llamacpp.LlamaCppModel": LLM,
    "openvino.OpenVino": LLM,
    "transformers.CausalLM": LLM,
}

USER = """
from inferstream.ray import application
from inferstream.runtimes.sklearn import SKLearnModel
from inferstream.runtimes.transformers import CausalLM


class Mine(SKLearnModel): ...


wrong: int = application
"""


@pytest.mark.parametrize("path", CLASSES)
def test_former_paths_and_runtime_names_resolve_to_the_class(path: str) -> None:
    now = f"{CLASSES[path]}.{path}"
    for written in (f"inferstream.runtimes.{path}", path.partition(".")[0], now):
        assert ModelSettings(implementation=written).implementation_ == now


@pytest.mark.parametrize("name", ["sklearn", "xgboost", "lightgbm", "onnx", "tables", "tensors", "sampling"])
def test_former_module_is_the_plugin_module(name: str) -> None:
    home = FRAMEWORKS if find_spec(f"{FRAMEWORKS}.{name}") else LLM
    assert import_module(f"inferstream.runtimes.{name}") is import_module(f"{home}.{name}")


def test_ray_package_is_importable_without_ray() -> None:
    former, now = import_module("inferstream.ray"), import_module("inferstream.plugins.ray")
    assert (former.application, former.by_utilization) == (now.application, now.by_utilization)


def test_type_checkers_find_former_paths(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "user.py"]
    # mypy does not find an editable install, which an import hook finds.
    environment = {**os.environ, "MYPYPATH": str(Path(inferstream.__file__).parents[1])}
    checked = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    errors = [line for line in checked.stdout.splitlines() if line.startswith("user.py")]
    assert len(errors) == 1, checked.stdout
    assert 'variable has type "int"' in errors[0]
