"""Default settings for folders saved by transformers or sentence-transformers."""

from pathlib import Path
from typing import Any

from inferstream.ext.settings import read_json

TASKS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMaskedLM": "fill-mask",
    "ForQuestionAnswering": "question-answering",
}
"""Pipeline tasks of transformers, by the suffix of the architecture."""


def read_settings(folder: Path) -> dict[str, Any]:
    """Return settings for a folder with `config.json`. Raises InvalidSettings."""
    if (folder / "modules.json").is_file():
        return {"implementation": "inferstream.plugins.llm.embeddings.EmbeddingsModel", "parameters": {}}
    config = read_json(folder / "config.json")
    architecture = str(next(iter(config.get("architectures") or ()), ""))
    if architecture.endswith("ForCausalLM"):
        return {"implementation": "inferstream.plugins.llm.transformers.CausalLM", "parameters": {}}
    task = next((task for end, task in TASKS.items() if architecture.endswith(end)), None)
    return {
        "implementation": "inferstream.plugins.llm.huggingface.HuggingFaceRuntime",
        "parameters": {"extra": {"task": task}} if task else {},
    }
