"""8-bit weights for linear layers: a scale for each output, computed in the type of the activations."""

from typing import Any

import torch


class Int8Linear(torch.nn.Module):
    """A linear layer whose weights take a byte each. Activations are not rounded.

    So a row's result does not depend on the other rows of its batch.
    """

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.abs().amax(1).clamp_min(1e-8) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8), persistent=False)
        self.register_buffer("scale", scale.to(weight.dtype), persistent=False)
        self.bias = linear.bias

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        flat = values.reshape(-1, values.shape[-1])
        result = torch._weight_int8pack_mm(flat, self.weight, self.scale)
        if self.bias is not None:
            result = result + self.bias
        return result.view(*values.shape[:-1], -1)


def quantize(model: Any) -> None:
    """Replace the linear layers of a model by ones with 8-bit weights, in place."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(module, name, Int8Linear(child))
