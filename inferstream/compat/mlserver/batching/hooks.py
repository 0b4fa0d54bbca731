"""What switches batching on."""

from collections.abc import Callable
from typing import Any

from inferstream import MLModel

Predict = Callable[..., Any]


def adaptive_batching(f: Predict) -> Predict:
    """The same: the server batches around a model, not inside."""
    return f


async def load_batching(model: MLModel) -> MLModel:
    """The same: the server batches around a model, not inside."""
    return model


__all__ = ["adaptive_batching", "load_batching"]
