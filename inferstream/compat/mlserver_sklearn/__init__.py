"""MLServer's scikit-learn runtime, made of ours."""

from .sklearn import STANDS_IN, SKLearnModel
from .version import __version__

__all__ = ["STANDS_IN", "SKLearnModel", "__version__"]
