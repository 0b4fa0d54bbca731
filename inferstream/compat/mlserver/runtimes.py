"""MLServer's runtimes, for model code that subclasses them: ours, with an async `predict` and MLServer's errors."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from inferstream import ModelSettings
from inferstream.errors import InvalidRequest
from inferstream.ext.runtimes import Runtime
from inferstream.runtimes import lightgbm, sklearn, xgboost
from inferstream.types import InferenceRequest, InferenceResponse, RequestOutput

STANDS_IN = True
"""A settings file that names one of the classes gets our own runtime, with calls in the order of priority."""


class Awaited(Runtime):
    """The first base of a class before a runtime. `threads` predictions run at once."""

    selects_outputs = None
    for_mlserver = True

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._executor = ThreadPoolExecutor(settings.threads, thread_name_prefix=f"model-{settings.name}")

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:  # type: ignore[override]
        run, predict = copy_context().run, super().predict
        return await asyncio.get_running_loop().run_in_executor(self._executor, run, predict, payload)

    def _function(self, name: str) -> Callable[..., Any]:
        try:
            return super()._function(name)
        except InvalidRequest as error:
            raise _refused(error.message) from error

    def _response(self, results: Sequence[Any], wanted: Sequence[RequestOutput]) -> InferenceResponse:
        try:
            return super()._response(results, wanted)
        except InvalidRequest as error:
            raise _refused(f"Cannot encode the response: {error.message}") from error


def _refused(message: str) -> Exception:
    """An `mlserver.errors.InferenceError`. The class may come from an installed MLServer."""
    from mlserver.errors import InferenceError  # late: this module may be loaded by those names

    error: Exception = InferenceError(message)
    return error


class SKLearnModel(Awaited, sklearn.SKLearnModel):
    """Our scikit-learn runtime."""


class XGBoostModel(Awaited, xgboost.XGBoostModel):  # type: ignore[misc]
    """Our XGBoost runtime."""


class LightGBMModel(Awaited, lightgbm.LightGBMModel):
    """Our LightGBM runtime."""


SKLEARN_FILES = [*SKLearnModel.artefacts]
XGBOOST_FILES = [*XGBoostModel.artefacts]
LIGHTGBM_FILES = [*LightGBMModel.artefacts]

PREDICT_FN_KEY = "predict_fn"
PREDICT_OUTPUT, PREDICT_PROBA_OUTPUT, PREDICT_TRANSFORM = SKLEARN_OUTPUTS = [*SKLearnModel.functions]
XGBOOST_OUTPUTS = [*XGBoostModel.functions]
