"""8-bit weights for linear layers: a scale for each output, computed in the type of the activations."""

from typing import Any

import torch

FEW = 4
"""Rows up to which torch's kernel for 8-bit weights is faster than making the weights larger again."""


class Int8Linear(torch.nn.Module):
    """A linear layer whose weights take a byte each. Activations are not rounded.

    For one stream in bfloat16 on a CPU it is faster than the layer that it replaces; for several it is slower.
    """

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.float().abs().amax(1).clamp_min(1e-12) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8), persistent=False)
        self.register_buffer("scale", scale.to(weight.dtype), persistent=False)
        self.bias = linear.bias
        self._has_kernel = weight.dtype == torch.bfloat16 and hasattr(torch, "_weight_int8pack_mm")

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        flat = values.reshape(-1, values.shape[-1])
        if self._has_kernel and flat.shape[0] <= FEW and flat.device.type == "cpu":
            result = torch._weight_int8pack_mm(flat, self.weight, self.scale)
        else:
            result = torch.nn.functional.linear(flat, self.weight.to(flat.dtype)) * self.scale
        if self.bias is not None:
            result = result + self.bias
        return result.view(*values.shape[:-1], -1)


def quantize(model: Any) -> None:
    """Replace the linear layers of a model by ones with 8-bit weights, in place."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, Int8Linear(child))
