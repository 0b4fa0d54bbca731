"""PyTorch's tensors in functions, and arrays outside of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .frameworks import converting


def torch_to_numpy(tensor: Any) -> Any:
    """The array of a tensor, which is copied from its device. Raises TypeError for anything else."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"Expected torch.Tensor, got {type(tensor).__name__}")
    return tensor.detach().cpu().numpy()


def numpy_to_torch(arr: Any, device: str = "cpu", dtype: Any = None) -> Any:
    """The tensor of an array. An array that may not be written to is copied."""
    tensor = torch.from_numpy(arr if arr.flags.writeable else np.array(arr))
    if dtype is not None:
        tensor = tensor.to(dtype)
    return tensor if device == "cpu" else tensor.to(device)


def torch_model(func: Callable[..., Any] | None = None, *, device: str = "cpu") -> Any:
    """Let a function take and return tensors on `device`, where its callers have arrays."""

    def inward(value: Any) -> Any:
        return numpy_to_torch(value, device) if isinstance(value, np.ndarray) else value

    def outward(value: Any) -> Any:
        return torch_to_numpy(value) if isinstance(value, torch.Tensor) else value

    return converting(func, inward, outward)
