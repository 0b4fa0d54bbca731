"""Conversion between NumPy arrays and PyTorch tensors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .frameworks import convert_arguments


def torch_to_numpy(tensor: Any) -> Any:
    """Convert a tensor to an array in CPU memory. Raises TypeError for any other value."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"Expected torch.Tensor, got {type(tensor).__name__}")
    return tensor.detach().cpu().numpy()


def numpy_to_torch(arr: Any, device: str = "cpu", dtype: Any = None) -> Any:
    """Convert an array to a tensor. Read-only arrays are copied."""
    tensor = torch.from_numpy(arr if arr.flags.writeable else np.array(arr))
    if dtype is not None:
        tensor = tensor.to(dtype)
    return tensor if device == "cpu" else tensor.to(device)


def torch_model(func: Callable[..., Any] | None = None, *, device: str = "cpu") -> Any:
    """Decorate a function of PyTorch tensors on `device` so that its callers pass and receive arrays."""

    def inward(value: Any) -> Any:
        return numpy_to_torch(value, device) if isinstance(value, np.ndarray) else value

    def outward(value: Any) -> Any:
        return torch_to_numpy(value) if isinstance(value, torch.Tensor) else value

    return convert_arguments(func, inward, outward)
