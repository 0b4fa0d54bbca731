"""What prepares a process for workers."""

from inferstream import Settings

WORKERS = "the server runs worker processes wherever parallel_workers asks for them"


def configure_inference_pool(settings: Settings) -> None:
    """Nothing is left to prepare."""


__all__ = ["configure_inference_pool"]
