"""What switches batching on."""

from collections.abc import Callable
from typing import Any

from inferstream import MLModel
from inferstream.compat.machinery import stand_ins

from ..errors import MLServerError

Predict = Callable[..., Any]


class InvalidBatchingMethod(MLServerError):
    """A method cannot be batched; the server raises none, because it batches around a model."""

    def __init__(self, method_name: str, reason: str | None = None) -> None:
        super().__init__(f"Method {method_name} cannot be batched" + (f": {reason}" if reason else ""))


def adaptive_batching(f: Predict) -> Predict:
    """The same: the server batches around a model, not inside."""
    return f


async def load_batching(model: MLModel) -> MLModel:
    """The same: the server batches around a model, not inside."""
    return model


__getattr__ = stand_ins(__name__)

__all__ = ["InvalidBatchingMethod", "adaptive_batching", "load_batching"]
