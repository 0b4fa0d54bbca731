"""MLServer's scikit-learn runtime, for model code that subclasses it."""

from inferstream.compat.awaited import Awaited
from inferstream.runtimes import sklearn as runtime

PREDICT_FN_KEY = "predict_fn"
PREDICT_OUTPUT, PREDICT_PROBA_OUTPUT, PREDICT_TRANSFORM = VALID_OUTPUTS = [*runtime.SKLearnModel.functions]
WELLKNOWN_MODEL_FILENAMES = [*runtime.SKLearnModel.artefacts]

STANDS_IN = True
"""A settings file that names the class gets the runtime itself, whose calls wait by priority."""


class SKLearnModel(Awaited, runtime.SKLearnModel):
    """Our runtime, whose `predict` is awaited."""
