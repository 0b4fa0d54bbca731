"""MLServer's XGBoost runtime, made of ours."""

from .version import __version__
from .xgboost import STANDS_IN, XGBoostModel

__all__ = ["STANDS_IN", "XGBoostModel", "__version__"]
