"""The pools of a server."""

from inferstream.compat.replaced import Replaced

from .utils import WORKERS


class InferencePoolRegistry(Replaced):
    """The pools of a server."""

    instead = WORKERS


__all__ = ["InferencePoolRegistry"]
