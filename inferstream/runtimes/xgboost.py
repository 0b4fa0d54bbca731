"""XGBoost: classifiers, regressors, rankers, and boosters, which are served as regressors."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any

from ..types import InferenceRequest, InferenceResponse
from .base import Runtime


class XGBoostModel(Runtime):
    """A model in XGBoost's JSON or UBJSON. A classifier also has `predict_proba`."""

    artefacts = ("model.bst", "model.json", "model.ubj")
    functions = ("predict", "predict_proba")

    _turn: AbstractContextManager[Any] = nullcontext()

    def open(self, path: Path) -> Any:
        self._import("sklearn", "xgboost")
        xgboost = self._import("xgboost", "xgboost")
        # Bytes, because XGBoost chooses a file's format by its suffix and does not know `.bst`.
        content = bytearray(path.read_bytes())
        try:
            estimator = self._estimator(xgboost, content)
        except xgboost.core.XGBoostError as error:
            raise self._unreadable(path, f"XGBoost {xgboost.__version__}", error) from error
        # Tree boosters are safe in parallel threads; linear boosters are not.
        linear = estimator.booster == "gblinear"
        self._turn = Lock() if linear else nullcontext()
        return estimator

    def _estimator(self, xgboost: Any, content: bytearray) -> Any:
        for kind in (xgboost.XGBRegressor, xgboost.XGBClassifier, xgboost.XGBRanker):
            estimator = kind(n_jobs=self._threads)
            try:
                estimator.load_model(content)
            except TypeError:  # the model is of another kind
                continue
            return estimator
        raise self._failed("it is neither a regressor nor a classifier nor a ranker")

    def features(self, artefact: Any) -> int | None:
        return getattr(artefact, "n_features_in_", None)

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        with self._turn:
            return super().predict(payload)
