"""The settings of folders that transformers or sentence-transformers has saved."""

from pathlib import Path
from typing import Any

from inferstream.ext.settings import read_json

TASKS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMaskedLM": "fill-mask",
    "ForQuestionAnswering": "question-answering",
}
"""Pipelines of transformers by the end of the architecture's name."""


def settings_of(folder: Path) -> dict[str, Any]:
    """The settings of a folder with `config.json`. Raises InvalidSettings."""
    if (folder / "modules.json").is_file():
        return {"implementation": "inferstream.runtimes.embeddings.EmbeddingsModel", "parameters": {}}
    config = read_json(folder / "config.json")
    architecture = str(next(iter(config.get("architectures") or ()), ""))
    if architecture.endswith("ForCausalLM"):
        return {"implementation": "inferstream.runtimes.transformers.CausalLM", "parameters": {}}
    task = next((task for end, task in TASKS.items() if architecture.endswith(end)), None)
    return {
        "implementation": "inferstream.runtimes.huggingface.HuggingFaceRuntime",
        "parameters": {"extra": {"task": task}} if task else {},
    }
