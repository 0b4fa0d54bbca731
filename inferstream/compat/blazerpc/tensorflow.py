"""TensorFlow's tensors in functions, and arrays outside of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .frameworks import converting


def tf_to_numpy(tensor: Any) -> Any:
    """The array of a tensor. Raises TypeError for anything else."""
    if not isinstance(tensor, tf.Tensor):
        raise TypeError(f"Expected tf.Tensor, got {type(tensor).__name__}")
    return tensor.numpy()


def numpy_to_tf(arr: Any, dtype: Any = None) -> Any:
    """The tensor of an array."""
    tensor = tf.convert_to_tensor(arr)
    return tensor if dtype is None else tf.cast(tensor, dtype)


def tf_model(func: Callable[..., Any] | None = None, *, dtype: Any = None) -> Any:
    """Let a function take and return tensors, where its callers have arrays."""

    def inward(value: Any) -> Any:
        return numpy_to_tf(value, dtype) if isinstance(value, np.ndarray) else value

    def outward(value: Any) -> Any:
        return tf_to_numpy(value) if isinstance(value, tf.Tensor) else value

    return converting(func, inward, outward)
