"""A runtime whose framework is not installed says in one line how to install it."""

from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import ModelLoadFailed, install_command
from inferstream.model import MLModel
from inferstream.plugins.llm.embeddings import EmbeddingsModel
from inferstream.plugins.llm.engine import Engine
from inferstream.plugins.llm.huggingface import HuggingFaceRuntime
from inferstream.plugins.llm.llamacpp import LlamaCppModel
from inferstream.plugins.llm.openvino import OpenVino
from inferstream.runtimes import framework
from inferstream.settings import ModelSettings


@pytest.mark.parametrize(
    ("runtime", "package", "extra", "settings"),
    [
        (EmbeddingsModel, "torch", "embeddings", {}),
        (HuggingFaceRuntime, "torch", "huggingface", {"task": "text-classification"}),
        (HuggingFaceRuntime, "torch", "huggingface", {"task": "sentence-similarity"}),
        (
            HuggingFaceRuntime,
            "transformers",
            "huggingface",
            {"task": "text-classification", "framework": "tf"},
        ),
        (LlamaCppModel, "llama_cpp", "llamacpp", {}),
        (OpenVino, "openvino_genai", "openvino", {}),
        (Engine, "hpack", "engine", {"target": "127.0.0.1:1"}),
    ],
)
async def test_missing_framework_names_its_extra(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runtime: type[MLModel],
    package: str,
    extra: str,
    settings: dict[str, Any],
) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(framework, "import_module", missing)
    (tmp_path / "model.gguf").touch()
    parameters = {"uri": str(tmp_path), "extra": settings}
    model = runtime(ModelSettings(name="m", implementation=runtime, parameters=parameters))
    with pytest.raises(ModelLoadFailed) as failed:
        await model.load()
    assert failed.value.message == (
        f"Model m did not load: it needs {package}, which is not installed; hint: {install_command(extra)}"
    )
