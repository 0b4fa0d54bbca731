"""A runtime whose framework is not installed says in one line how to install it."""

from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import ModelLoadFailed
from inferstream.model import MLModel
from inferstream.runtimes import framework
from inferstream.runtimes.embeddings import EmbeddingsModel
from inferstream.runtimes.huggingface import HuggingFaceRuntime
from inferstream.runtimes.llamacpp import LlamaCppModel
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
    ],
)
async def test_the_extra_is_named(
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
        f'Model m did not load: it needs {package}: pip install "inferstream[{extra}]".'
    )
