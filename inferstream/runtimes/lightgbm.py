"""LightGBM: boosters in its text format."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..types import InferenceRequest, RequestOutput
from .base import Function, Runtime


class LightGBMModel(Runtime):
    """A booster; `predict` answers a classifier's probabilities."""

    artefacts = ("model.bst",)

    def open(self, path: Path) -> Any:
        lightgbm = self._import("lightgbm", "lightgbm")
        try:
            return lightgbm.Booster(model_file=path)
        except lightgbm.basic.LightGBMError as error:
            raise self._unreadable(path, f"LightGBM {lightgbm.__version__}", error) from error

    def method(self, artefact: Any, name: str) -> Function | None:
        # A booster takes no threads when it is read: its parameters are the file's.
        found = super().method(artefact, name)
        return partial(found, num_threads=self._threads) if found is not None and name == "predict" else found

    def wanted(self, outputs: Sequence[RequestOutput]) -> Sequence[RequestOutput]:
        # MLServer's runtime answers `predict` whatever a client asks for, and clients name it as they like.
        return [output for output in outputs if output.name in self._functions]

    def _check(self, features: Any, request: InferenceRequest) -> None:
        # LightGBM does not look at the names of a data frame's columns, and takes them as they come.
        self._check_shape(features, request)

    def features(self, artefact: Any) -> int | None:
        count = getattr(artefact, "num_feature", None)
        return None if count is None else int(count())
