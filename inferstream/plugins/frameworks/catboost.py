"""CatBoost models in the binary format."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from inferstream.ext.runtimes import (
    Column,
    Columns,
    PermittedCall,
    Runtime,
    described_tensor,
)
from inferstream.types import MetadataTensor

from .estimators import class_output
from .libraries import LIBRARIES

SEVERAL = "Multi"
"""Prefix of loss functions whose models predict several numbers per row."""


class CatBoostModel(Runtime):
    """A CatBoost classifier or regressor. A classifier also has `predict_proba`."""

    permitted_call = PermittedCall("CatBoost.load_model", frozenset([".cbm"]), frozenset(["predict_fn"]))
    artefacts = ("model.cbm", "model.bin")
    functions = ("predict", "predict_proba")
    libraries = LIBRARIES
    by_position = True

    def open(self, path: Path) -> Any:
        catboost = self._import("catboost", "catboost")
        self.refused = (ValueError, catboost.CatBoostError)
        try:
            model = catboost.CatBoostClassifier().load_model(str(path))
            # Only the classes in the file show whether it is a classifier.
            return model if len(model.classes_) else catboost.CatBoostRegressor().load_model(str(path))
        except catboost.CatBoostError as error:
            raise self._unreadable(path, f"CatBoost {catboost.__version__}", error) from error

    def method(self, artefact: Any, name: str) -> Callable[..., Any] | None:
        # CatBoost accepts the number of threads per call, and uses every core by default.
        function = super().method(artefact, name)
        return function if function is None else partial(function, thread_count=self._threads)

    def features(self, artefact: Any) -> int | None:
        return len(artefact.feature_names_)

    def columns(self, artefact: Any) -> Columns | None:
        names = artefact.feature_names_
        if names == [str(position) for position in range(len(names))]:
            return None  # default names of unnamed columns
        texts = _texts(artefact)
        columns = [
            Column(name, "BYTES" if position in texts else "FP64") for position, name in enumerate(names)
        ]
        return Columns(columns, frames=bool(texts))

    def array(self, artefact: Any) -> MetadataTensor | None:
        count = len(artefact.feature_names_)
        return None if _texts(artefact) else described_tensor("features", "FP64", [-1, count])

    def output(self, artefact: Any, method: str) -> MetadataTensor | None:
        if len(artefact.classes_):
            return class_output(method, artefact.classes_, "FP64")
        several = str(artefact.get_param("loss_function")).startswith(SEVERAL)
        return described_tensor(method, "FP64", [-1, 1]) if method == "predict" and not several else None


def _texts(model: Any) -> set[int]:
    return {*model.get_cat_feature_indices(), *model.get_text_feature_indices()}
