"""LightGBM: boosters in its text format."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..types import InferenceRequest, RequestOutput
from .base import Function, Runtime


class LightGBMModel(Runtime):
    """A booster. `predict` returns the probabilities of a classifier."""

    artefacts = ("model.bst",)

    def open(self, path: Path) -> Any:
        lightgbm = self._import("lightgbm", "lightgbm")
        try:
            return lightgbm.Booster(model_file=path)
        except lightgbm.basic.LightGBMError as error:
            raise self._unreadable(path, f"LightGBM {lightgbm.__version__}", error) from error

    def method(self, artefact: Any, name: str) -> Function | None:
        # A booster takes the number of threads per call: its other parameters come from the file.
        found = super().method(artefact, name)
        return partial(found, num_threads=self._threads) if found is not None and name == "predict" else found

    def wanted(self, outputs: Sequence[RequestOutput]) -> Sequence[RequestOutput]:
        # MLServer's runtime computes `predict` for any output name, so clients may use any name.
        return [output for output in outputs if output.name in self._functions]

    def _check(self, features: Any, request: InferenceRequest) -> None:
        # LightGBM does not check the column names of a data frame.
        self._check_shape(features, request)

    def features(self, artefact: Any) -> int | None:
        count = getattr(artefact, "num_feature", None)
        return None if count is None else int(count())
