"""LightGBM boosters in the text format."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from inferstream.ext.runtimes import (
    Column,
    Columns,
    PermittedCall,
    Runtime,
    described_tensor,
)
from inferstream.types import MetadataTensor, RequestOutput

from .estimators import category_datatype, spell_for_lightgbm
from .libraries import LIBRARIES

UNNAMED = re.compile(r"Column_\d+")
"""Default names of unnamed columns."""

RANGE = re.compile(r"\[(.+):(.+)\]")
"""The range of a numeric column in a model file."""


class LightGBMModel(Runtime):
    """A LightGBM booster. `predict` returns the probabilities of a classifier."""

    permitted_call = PermittedCall("lightgbm.Booster", frozenset([".bst", ".txt"]), frozenset(["predict_fn"]))
    artefacts = ("model.bst",)
    libraries = LIBRARIES
    by_position = True

    def open(self, path: Path) -> Any:
        lightgbm = self._import("lightgbm", "lightgbm")
        try:
            return lightgbm.Booster(model_file=path)
        except lightgbm.basic.LightGBMError as error:
            raise self._unreadable(path, f"LightGBM {lightgbm.__version__}", error) from error

    def method(self, artefact: Any, name: str) -> Callable[..., Any] | None:
        # A booster accepts the number of threads per call. Its other parameters come from the file.
        function = super().method(artefact, name)
        return (
            partial(function, num_threads=self._threads)
            if function is not None and name == "predict"
            else function
        )

    def wanted(self, outputs: Sequence[RequestOutput]) -> Sequence[RequestOutput]:
        # The MLServer runtime computes `predict` for any output name, so clients may use any name.
        return [output for output in outputs if output.name in self._functions]

    def features(self, artefact: Any) -> int | None:
        count = getattr(artefact, "num_feature", None)
        return None if count is None else int(count())

    def columns(self, artefact: Any) -> Columns | None:
        names = artefact.feature_name()
        if all(map(UNNAMED.fullmatch, names)):
            return None
        categories = getattr(artefact, "pandas_categorical", None) or ()
        positions = artefact.params.get("categorical_feature") or ()
        if len(positions) != len(categories):
            return None  # the categorical columns are unknown
        chosen = dict(zip(positions, categories, strict=True))
        examples = _find_middles(artefact)
        columns = [
            Column(name, category_datatype(chosen[position]), category=True, examples=chosen[position][:20])
            if position in chosen
            else Column(name, "FP64", examples=examples.get(position, ()))
            for position, name in enumerate(names)
        ]
        # LightGBM reads arrays faster than data frames.
        return Columns(columns, frames=bool(chosen), spelled=spell_for_lightgbm)

    def array(self, artefact: Any) -> MetadataTensor | None:
        return described_tensor("features", "FP64", [-1, int(artefact.num_feature())])

    def output(self, artefact: Any, method: str) -> MetadataTensor | None:
        return (
            described_tensor(method, "FP64", [-1, artefact.num_model_per_iteration()])
            if method == "predict"
            else None
        )


def _find_middles(booster: Any) -> dict[int, list[float]]:
    """Return the middle of the training range of each numeric column, by position."""
    header = re.search(r"^feature_infos=(.*)$", booster.model_to_string(num_iteration=1), re.MULTILINE)
    ranges = enumerate(header[1].split() if header else ())
    matches = ((position, RANGE.fullmatch(text)) for position, text in ranges)
    return {at: [float(f"{(float(m[1]) + float(m[2])) / 2:.4g}")] for at, m in matches if m is not None}
