"""Linear layers with 8-bit weights and one scale per output. They compute in the dtype of the activations."""

from typing import Any

import torch

FEW = 4
"""Maximum rows for the PyTorch 8-bit kernel. For more rows, converting the weights back is faster."""


class Int8Linear(torch.nn.Module):
    """A linear layer with one byte per weight. Activations are not quantized.

    On a CPU with bfloat16, it is faster than the original layer for a single stream, but slower for several.
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
    """Replace the linear layers of a model with 8-bit layers, in place."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, Int8Linear(child))
