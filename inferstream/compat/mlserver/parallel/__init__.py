"""Worker processes."""

from .pool import InferencePool
from .registry import InferencePoolRegistry
from .utils import configure_inference_pool
from .worker import Worker

__all__ = ["InferencePool", "InferencePoolRegistry", "Worker", "configure_inference_pool"]
