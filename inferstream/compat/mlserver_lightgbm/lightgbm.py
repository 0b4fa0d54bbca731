"""MLServer's LightGBM runtime, for model code that subclasses it."""

from inferstream.compat.awaited import Awaited
from inferstream.runtimes import lightgbm as runtime

WELLKNOWN_MODEL_FILENAMES = [*runtime.LightGBMModel.artefacts]

STANDS_IN = True
"""A settings file that names the class gets the runtime itself, whose calls wait by priority."""


class LightGBMModel(Awaited, runtime.LightGBMModel):
    """Our runtime, whose `predict` is awaited."""
