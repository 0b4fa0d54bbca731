"""What prepares a process for workers."""

from inferstream import Settings
from inferstream.compat.machinery import stand_ins

WORKERS = "the server runs worker processes where parallel_workers asks for them"


def configure_inference_pool(settings: Settings) -> None:
    """Nothing is left to prepare."""


__getattr__ = stand_ins(__name__)

__all__ = ["configure_inference_pool"]
