"""What loads and unloads models on demand."""

from inferstream.compat.replaced import Replaced


class ModelRepositoryHandlers(Replaced):
    """Answers the repository's calls."""

    instead = "mlserver.MLServer serves them"


__all__ = ["ModelRepositoryHandlers"]
