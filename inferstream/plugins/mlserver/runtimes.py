"""MLServer runtimes for model code that subclasses them, with an async `predict` and MLServer errors."""

from collections.abc import Callable, Sequence
from typing import Any

from inferstream.errors import InvalidRequest
from inferstream.ext.runtimes import Runtime
from inferstream.plugins.frameworks import catboost, lightgbm, mlflow, sklearn, xgboost
from inferstream.plugins.frameworks.awaited import Awaited
from inferstream.types import InferenceResponse, RequestOutput

from . import onnx

STANDS_IN = True
"""If a settings file names one of these classes, the server uses its own runtime.

That runtime orders calls by priority.
"""


class AwaitedRuntime(Awaited, Runtime):
    """A mixin for subclasses of `Runtime`, whose errors for requested outputs are MLServer errors."""

    def _function(self, name: str) -> Callable[..., Any]:
        try:
            return super()._function(name)
        except InvalidRequest as error:
            raise _inference_error(error.message) from error

    def _response(self, results: Sequence[Any], wanted: Sequence[RequestOutput]) -> InferenceResponse:
        try:
            return super()._response(results, wanted)
        except InvalidRequest as error:
            raise _inference_error(f"Cannot encode the response: {error.message}") from error


def _inference_error(message: str) -> Exception:
    """Create an `mlserver.errors.InferenceError`, whose class may be from an installed MLServer."""
    # Imported lazily: this module may be loaded through these names.
    from mlserver.errors import InferenceError

    error: Exception = InferenceError(message)
    return error


class SKLearnModel(AwaitedRuntime, sklearn.SKLearnModel):
    """The scikit-learn runtime."""


class XGBoostModel(AwaitedRuntime, xgboost.XGBoostModel):
    """The XGBoost runtime."""


class LightGBMModel(AwaitedRuntime, lightgbm.LightGBMModel):
    """The LightGBM runtime."""


class CatboostModel(AwaitedRuntime, catboost.CatBoostModel):
    """The CatBoost runtime."""


class OnnxModel(Awaited, onnx.MLServerOnnxModel):
    """The ONNX runtime."""

    @property
    def _model(self) -> Any:
        """The ONNX Runtime session, by the name that subclasses use."""
        return self._artefact

    @_model.setter
    def _model(self, session: Any) -> None:
        self._artefact = session

    def _find_outputs(self, wanted: Sequence[RequestOutput]) -> Sequence[str]:
        try:
            return super()._find_outputs(wanted)
        except InvalidRequest as error:
            raise _inference_error(error.message) from error


class MLflowRuntime(Awaited, mlflow.MLflowModel):
    """The MLflow runtime."""

    gives_content_types = True


SKLEARN_FILES = [*SKLearnModel.artefacts]
XGBOOST_FILES = [*XGBoostModel.artefacts]
LIGHTGBM_FILES = [*LightGBMModel.artefacts]
CATBOOST_FILES = [*CatboostModel.artefacts]
ONNX_FILES = [*OnnxModel.artefacts]
ONNX_OUTPUTS = [onnx.PREDICT_OUTPUT]

PREDICT_FN_KEY = "predict_fn"
PREDICT_OUTPUT, PREDICT_PROBA_OUTPUT, PREDICT_TRANSFORM = SKLEARN_OUTPUTS = [*SKLearnModel.functions]
XGBOOST_OUTPUTS = [*XGBoostModel.functions]
