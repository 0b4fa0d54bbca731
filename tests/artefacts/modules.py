"""Small modules of PyTorch, whose files torch itself writes."""

import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.artefacts import models

ROWS = torch.export.Dim("rows", min=1, max=1000)


class Classifier(torch.nn.Module):
    """`models.classifier`: flowers and a scale of each in, species and probabilities out."""

    def __init__(self, species: int = 3) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, species)

    def forward(self, flowers: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.linear(flowers) * scale
        return scores.argmax(1), scores.softmax(1)


class Described(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"doubled": x * 2, "total": x.sum(1)}


def classifier() -> Classifier:
    fitted, module = models.classifier(), Classifier()
    with torch.no_grad():
        module.linear.weight.copy_(torch.from_numpy(fitted.coef_))
        module.linear.bias.copy_(torch.from_numpy(fitted.intercept_))
    return module.eval()


def exported(folder: Path, file: str = "model.pt2", dtype: Any = torch.float32) -> Path:
    module, example = classifier().to(dtype), (torch.ones(2, 4, dtype=dtype), torch.ones(2, 1, dtype=dtype))
    shapes = {"flowers": {0: ROWS}, "scale": {0: ROWS}}
    torch.export.save(torch.export.export(module, example, dynamic_shapes=shapes), folder / file)
    return folder / file


def exported_mapping(folder: Path) -> Path:
    program = torch.export.export(Described(), (), {"x": torch.ones(2, 4)}, dynamic_shapes={"x": {0: ROWS}})
    torch.export.save(program, folder / "model.pt2")
    return folder / "model.pt2"


def scripted(folder: Path, module: torch.nn.Module | None = None) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(module or classifier()).save(folder / "model.pt")
    return folder / "model.pt"


def weights(folder: Path) -> Path:
    save_file(classifier().state_dict(), folder / "model.safetensors")
    return folder / "model.safetensors"
