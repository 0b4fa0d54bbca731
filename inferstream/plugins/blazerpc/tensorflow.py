"""Conversion between NumPy arrays and TensorFlow tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .frameworks import convert_arguments


def tf_to_numpy(tensor: Any) -> Any:
    """Convert a tensor to an array. Raises TypeError for any other value."""
    if not isinstance(tensor, tf.Tensor):
        raise TypeError(f"Expected tf.Tensor, got {type(tensor).__name__}")
    return tensor.numpy()


def numpy_to_tf(arr: Any, dtype: Any = None) -> Any:
    """Convert an array to a tensor."""
    tensor = tf.convert_to_tensor(arr)
    return tensor if dtype is None else tf.cast(tensor, dtype)


def tf_model(func: Callable[..., Any] | None = None, *, dtype: Any = None) -> Any:
    """Decorate a function of TensorFlow tensors so that its callers pass and receive arrays."""

    def inward(value: Any) -> Any:
        return numpy_to_tf(value, dtype) if isinstance(value, np.ndarray) else value

    def outward(value: Any) -> Any:
        return tf_to_numpy(value) if isinstance(value, tf.Tensor) else value

    return convert_arguments(func, inward, outward)
