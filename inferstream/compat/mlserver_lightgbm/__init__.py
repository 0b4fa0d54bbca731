"""MLServer's LightGBM runtime, made of ours."""

from .lightgbm import STANDS_IN, LightGBMModel
from .version import __version__

__all__ = ["STANDS_IN", "LightGBMModel", "__version__"]
