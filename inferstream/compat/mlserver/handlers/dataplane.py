"""What stands between the protocols and the models."""

from inferstream.compat.replaced import Replaced


class DataPlane(Replaced):
    """Answers inferences."""

    instead = "mlserver.MLServer serves models, and a model's own methods answer without a server"


__all__ = ["DataPlane"]
