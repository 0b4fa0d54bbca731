"""Describes a folder that holds the files of one model and no settings, as KServe's storage initializer fills it."""

import logging
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import InvalidSettings
from ..settings import MODEL_SETTINGS_FILE, SETTINGS_FILE
from ..settings.sources import read_json
from . import mar

logger = logging.getLogger("inferstream.repository")

SKLEARN = "inferstream.runtimes.sklearn.SKLearnModel"
XGBOOST = "inferstream.runtimes.xgboost.XGBoostModel"
LIGHTGBM = "inferstream.runtimes.lightgbm.LightGBMModel"
ONNX = "inferstream.runtimes.onnx.OnnxModel"
TORCH = "inferstream.runtimes.torch.TorchModel"
LLAMACPP = "inferstream.runtimes.llamacpp.LlamaCppModel"
CATBOOST = "inferstream.runtimes.catboost.CatBoostModel"
MLFLOW = "inferstream.runtimes.mlflow.MLflowModel"
CAUSAL_LM = "inferstream.runtimes.transformers.CausalLM"
EMBEDDINGS = "inferstream.runtimes.embeddings.EmbeddingsModel"
PIPELINE = "inferstream.runtimes.huggingface.HuggingFaceRuntime"

RUNTIME_PATHS = frozenset(
    [
        *(SKLEARN, XGBOOST, LIGHTGBM, CATBOOST, ONNX, TORCH),
        *(LLAMACPP, MLFLOW, CAUSAL_LM, EMBEDDINGS, PIPELINE),
    ]
)

MLMODEL = "MLmodel"
"""MLflow's file, beside which the artefacts of a flavor lie."""

BY_NAME = {MLMODEL: MLFLOW, "model.json": XGBOOST, "model.txt": LIGHTGBM}
BY_SUFFIX = {
    ".joblib": SKLEARN,
    ".pickle": SKLEARN,
    ".pkl": SKLEARN,
    ".bst": XGBOOST,
    ".ubj": XGBOOST,
    ".cbm": CATBOOST,
    ".gguf": LLAMACPP,
    mar.SUFFIX: mar.MODEL,
    ".onnx": ONNX,
    ".pt": TORCH,
    ".pt2": TORCH,
}

OF_TRANSFORMERS = frozenset([ONNX, TORCH])
"""Runtimes whose files also lie beside the weights that transformers reads, as another form of them."""

LIGHTGBM_BEGINS = b"tree"
"""First bytes of LightGBM's text format, which is called `.bst` as XGBoost's files are."""

TASKS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMaskedLM": "fill-mask",
    "ForQuestionAnswering": "question-answering",
}
"""Pipelines of transformers by the end of the architecture's name."""

CONFIG = "config.json"
"""The file that says of a folder which transformer it is."""

NO_MODEL = "the folder holds files and no model: no model-settings.json, and no artefact such as model.joblib"


def described_by_files(folder: Path) -> dict[str, Any]:
    """The settings that the files of a folder stand for; empty for a folder without files.

    `folder` may be an artefact itself. Raises InvalidSettings for files without a model, and for several artefacts.
    """
    if (runtime := runtime_of(folder)) is not None:
        if runtime == mar.MODEL:
            return mar.settings_of(folder)
        return {"implementation": runtime, "parameters": {"uri": str(folder)}}
    described = _of_artefact(folder) or _of_transformers(folder)
    if not described and next(_files(folder), None) is not None:
        raise InvalidSettings(NO_MODEL)
    return described


def folders_of_models(folder: Path) -> Sequence[Path]:
    """The folders in this one that hold the files of a model each; none where it holds those of one itself.

    The log names the others that hold files.
    """
    if not folder.is_dir() or _is_model(folder):
        return []
    below = sorted(path for path in folder.glob("[!._]*") if path.is_dir())
    models = [path for path in below if _is_model(path)]
    for path in below if models else ():
        if path not in models and next(_files(path), None) is not None:
            _report_skipped(path)
    return models


def _is_model(folder: Path) -> bool:
    return (folder / CONFIG).is_file() or any(map(runtime_of, folder.glob("[!.]*")))


@cache
def _report_skipped(folder: Path) -> None:
    logger.warning("%s: this folder is skipped: %s", folder, NO_MODEL)


def _of_artefact(folder: Path) -> dict[str, Any]:
    runtimes = {path: runtime for path in sorted(folder.glob("[!.]*")) if (runtime := runtime_of(path))}
    if folder / MLMODEL in runtimes:
        return {"implementation": MLFLOW, "parameters": {"uri": str(folder / MLMODEL)}}
    chosen = [path for path in runtimes if path.stem == "model"] or [*runtimes]
    if not chosen or (runtimes[chosen[0]] in OF_TRANSFORMERS and _holds_weights(folder)):
        return {}
    uri = chosen[0]
    if len(chosen) > 1:
        if {*runtimes.values()} != {LLAMACPP}:
            names = ", ".join(path.name for path in chosen)
            each = ", ".join(f"server start {path.name}" for path in chosen)
            raise InvalidSettings(
                f"several artefacts: {names}; a {MODEL_SETTINGS_FILE} chooses one, and so do {each}; "
                "several models need a folder each"
            )
        uri = folder  # the runtime finds the first of the parts
    return {"implementation": runtimes[chosen[0]], "parameters": {"uri": str(uri)}}


def _holds_weights(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and next(folder.glob("*.safetensors"), None) is not None


def runtime_of(path: Path) -> str | None:
    """The runtime that reads a file; None for what is no artefact."""
    runtime = BY_NAME.get(path.name) or BY_SUFFIX.get(path.suffix)
    if runtime is None or not path.is_file():
        return None
    if path.suffix == ".bst":
        with path.open("rb") as file:
            return LIGHTGBM if file.read(len(LIGHTGBM_BEGINS)) == LIGHTGBM_BEGINS else XGBOOST
    return runtime


def _of_transformers(folder: Path) -> dict[str, Any]:
    """The settings of a folder that transformers or sentence-transformers has saved."""
    config = folder / CONFIG
    if not config.is_file():
        return {}
    if (folder / "modules.json").is_file():
        return {"implementation": EMBEDDINGS, "parameters": {}}
    architecture = str(next(iter(read_json(config).get("architectures") or ()), ""))
    if architecture.endswith("ForCausalLM"):
        return {"implementation": CAUSAL_LM, "parameters": {}}
    task = next((task for end, task in TASKS.items() if architecture.endswith(end)), None)
    return {"implementation": PIPELINE, "parameters": {"extra": {"task": task}} if task else {}}


def _files(folder: Path) -> Iterator[str]:
    """Files of a folder that may belong to a model."""
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        yield from (name for name in files if not name.startswith(".") and name != SETTINGS_FILE)
