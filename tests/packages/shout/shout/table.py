"""A runtime of a framework: `weights.json` has the weight of each column of a table."""

import json
from pathlib import Path
from typing import Any

from inferstream.ext.runtimes import Column, Columns, Runtime, described_tensor
from inferstream.ext.values import Array
from inferstream.types import MetadataTensor


class Weights:
    def __init__(self, weights: dict[str, float]) -> None:
        self.names = list(weights)
        self._weights = list(weights.values())

    def predict(self, table: Array) -> Array:
        return table @ self._weights


class WeightedSum(Runtime):
    artefacts = ("weights.json",)

    def open(self, path: Path) -> Weights:
        return Weights(json.loads(path.read_text()))

    def features(self, artefact: Weights) -> int:
        return len(artefact.names)

    def columns(self, artefact: Weights) -> Columns:
        return Columns([Column(name, "FP64") for name in artefact.names], frames=False)

    def output(self, artefact: Any, method: str) -> MetadataTensor:
        return described_tensor(method, "FP64", [-1])
