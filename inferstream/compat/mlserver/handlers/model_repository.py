"""What loads and unloads models on demand."""

from inferstream.compat.machinery import stand_ins
from inferstream.compat.replaced import Replaced


class ModelRepositoryHandlers(Replaced):
    """Answers the repository's calls."""

    instead = "mlserver.MLServer serves every protocol"


__getattr__ = stand_ins(__name__)

__all__ = ["ModelRepositoryHandlers"]
