"""XGBoost classifiers, regressors and rankers. Boosters are served as regressors."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from inferstream.errors import InvalidRequest
from inferstream.ext.runtimes import Column, Columns, PermittedCall, Runtime, described_tensor
from inferstream.types import InferenceRequest, InferenceResponse, MetadataTensor

from .estimators import category_datatype, class_output
from .libraries import LIBRARIES

CATEGORY = "c"
"""XGBoost type of a categorical feature."""

UNKNOWN_CATEGORY = re.compile(r"category not in the training set for the (\d+)th .*column: `(.*)`")
"""XGBoost error message for an unknown category."""

DATATYPES = {"int": "INT64", "i": "BOOL"}
"""Datatypes by XGBoost feature type. All others are 32-bit floats."""


class XGBoostModel(Runtime):
    """An XGBoost model in JSON or UBJSON. A classifier also has `predict_proba`."""

    permitted_call = PermittedCall(
        "XGBModel.load_model", frozenset([".bst", ".json", ".ubj"]), frozenset(["predict_fn"])
    )
    artefacts = ("model.bst", "model.json", "model.ubj")
    functions = ("predict", "predict_proba")
    libraries = LIBRARIES

    _lock: AbstractContextManager[Any] = nullcontext()

    def open(self, path: Path) -> Any:
        self._import("sklearn", "xgboost")
        xgboost = self._import("xgboost", "xgboost")
        # Passed as bytes, because XGBoost detects the file format by suffix and does not support `.bst`.
        content = bytearray(path.read_bytes())
        try:
            estimator = self._estimator(xgboost, content)
        except xgboost.core.XGBoostError as error:
            raise self._unreadable(path, f"XGBoost {xgboost.__version__}", error) from error
        # Tree boosters are thread-safe, but linear boosters are not.
        linear = estimator.booster == "gblinear"
        self._lock = Lock() if linear else nullcontext()
        return estimator

    def _estimator(self, xgboost: Any, content: bytearray) -> Any:
        for kind in (xgboost.XGBRegressor, xgboost.XGBClassifier, xgboost.XGBRanker):
            estimator = kind(n_jobs=self._threads)
            try:
                estimator.load_model(content)
            except TypeError:  # the model has another type
                continue
            return estimator
        raise self._build_load_error("it is neither a regressor nor a classifier nor a ranker")

    def features(self, artefact: Any) -> int | None:
        return getattr(artefact, "n_features_in_", None)

    def columns(self, artefact: Any) -> Columns | None:
        booster = artefact.get_booster()
        names = booster.feature_names
        if names is None:
            return None
        types = booster.feature_types or [""] * len(names)
        categories = _categories(booster) if CATEGORY in types else {}
        columns = [
            _categorical(name, categories.get(position, ()))
            if kind == CATEGORY
            else Column(name, DATATYPES.get(kind, "FP32"))
            for position, (name, kind) in enumerate(zip(names, types, strict=True))
        ]
        return Columns(columns, frames=True)

    def array(self, artefact: Any) -> MetadataTensor | None:
        count = self.features(artefact)
        return None if count is None else described_tensor("features", "FP32", [-1, count])

    def output(self, artefact: Any, method: str) -> MetadataTensor | None:
        if (classes := getattr(artefact, "classes_", None)) is not None:
            return class_output(method, classes, "FP32")
        return described_tensor(method, "FP32", [-1, _width(artefact)]) if method == "predict" else None

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        try:
            with self._lock:
                return super().predict(payload)
        except ValueError as error:  # the base class of XGBoostError
            unknown = UNKNOWN_CATEGORY.search(str(error))
            if unknown is None or self._columns is None:
                raise
            name = self._columns.columns[int(unknown[1])].name
            raise InvalidRequest(
                f'column "{name}": the model was fitted without {unknown[2]!r:.60}'
            ) from error


def _categorical(name: str, choices: Sequence[Any]) -> Column:
    datatype = category_datatype(choices) if choices else "BYTES"
    return Column(name, datatype, category=True, choices=choices)


def _categories(booster: Any) -> dict[int, list[Any]]:
    """Return the categories of categorical features by position. Files from XGBoost before 3.1 have none.

    They are read from JSON because `get_categories` needs pyarrow.
    """
    trained = orjson.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    encoded = trained.get("gbtree", trained)["model"].get("cats", {}).get("enc", ())
    return {position: _decode_categories(each) for position, each in enumerate(encoded) if each["values"]}


def _decode_categories(encoded: Mapping[str, Any]) -> list[Any]:
    """Return numbers, or strings from concatenated bytes, each between two adjacent `offsets`.

    XGBoost 3.2 counts characters instead of bytes, which corrupts strings that are not ASCII, so these are
    omitted.
    """
    values: list[Any] = encoded["values"]
    if "offsets" not in encoded:
        return values
    if not all(0 <= value < 128 for value in values):
        return []
    content = bytes(values).decode("ascii")
    return [content[start:end] for start, end in pairwise(encoded["offsets"])]


def _width(regressor: Any) -> int:
    learner = orjson.loads(regressor.get_booster().save_config())["learner"]
    known = learner["learner_model_param"]
    probabilities = learner["objective"]["name"] == "multi:softprob"
    return max(1, int(known["num_target"]), int(known["num_class"]) if probabilities else 1)
