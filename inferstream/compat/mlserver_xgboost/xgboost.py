"""MLServer's XGBoost runtime, for model code that subclasses it."""

from inferstream.compat.awaited import Awaited
from inferstream.runtimes import xgboost as runtime

PREDICT_OUTPUT, PREDICT_PROBA_OUTPUT = VALID_OUTPUTS = [*runtime.XGBoostModel.functions]
WELLKNOWN_MODEL_FILENAMES = [*runtime.XGBoostModel.artefacts]

STANDS_IN = True
"""A settings file that names the class gets the runtime itself, whose calls wait by priority."""


class XGBoostModel(Awaited, runtime.XGBoostModel):  # type: ignore[misc]
    """Our runtime, whose `predict` is awaited."""
