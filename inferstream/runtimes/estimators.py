"""Inputs and outputs of a fitted estimator of scikit-learn, read from its attributes; it is never run."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import orjson

from inferstream.ext.runtimes import Column, described_tensor
from inferstream.ext.values import to_datatype

from ..errors import CodecError
from ..types import MetadataTensor

CLASSES = "classes"
"""Parameter of an output in metadata: the classes of a classifier, as a JSON list in the order of probabilities."""

MOST_CLASSES = 1000
"""Metadata list no more classes than this."""

WIDE = ("coef_", "components_", "cluster_centers_", "mean_", "scale_", "coefs_")
"""Attributes that have the dtype of the numbers that an estimator was fitted with."""


def columns_of(estimator: Any) -> list[Column] | None:
    """The columns of the data frame that an estimator was fitted with; None if it was fitted with none."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return None
    used = _used(estimator, len(names))
    datatypes = _datatypes(estimator, len(names))
    return [
        Column(str(name), datatype, position in used)
        for position, (name, datatype) in enumerate(zip(names, datatypes, strict=True))
    ]


def is_of(estimator: Any, package: str) -> bool:
    """Whether the estimator that gets the columns comes from a package."""
    return type(_first(estimator)).__module__.partition(".")[0] == package


def array_of(estimator: Any) -> MetadataTensor | None:
    """The input of an estimator that was fitted with an array or with texts; None if neither is certain."""
    count = getattr(estimator, "n_features_in_", None)
    if count is None:
        return described_tensor("text", "BYTES", [-1]) if _takes_texts(_first(estimator)) else None
    datatypes = set(_datatypes(estimator, int(count)))
    datatype = "BYTES" if "BYTES" in datatypes else datatypes.pop() if len(datatypes) == 1 else "FP64"
    return described_tensor("features", datatype, [-1, int(count)])


def output_of(estimator: Any, method: str) -> MetadataTensor | None:
    """The output that is the result of a method; None if its datatype or shape is not certain."""
    last = _last(estimator)
    classes = getattr(estimator, "classes_", None)
    if method in ("predict_proba", "predict_log_proba", "decision_function"):
        if not isinstance(classes, np.ndarray):
            return None
        single = method == "decision_function" and len(classes) == 2
        return _returned(last, method, 1 if single else len(classes), **_listed(classes))
    if method == "predict":
        return _prediction(last, classes)
    return _transformed(estimator, last) if method == "transform" else None


def class_output(method: str, classes: Any, float_datatype: str) -> MetadataTensor | None:
    """An output of a classifier with these classes; None for another method than the two of every classifier."""
    array = np.asarray(classes)
    if method == "predict":
        return described_tensor(method, to_datatype(array.dtype).value, [-1, 1], **_listed(array))
    if method == "predict_proba":
        return described_tensor(method, float_datatype, [-1, len(array)], **_listed(array))
    return None


LIBRARIES = {"sklearn": "FP64", "lightgbm": "FP64", "xgboost": "FP32"}
"""The datatypes of the numbers that estimators of these packages return."""


def _returned(estimator: Any, method: str, width: int, **parameters: Any) -> MetadataTensor | None:
    """An output of numbers; None for an estimator of another package, which may return numbers of any datatype."""
    package = type(estimator).__module__.partition(".")[0]
    datatype = float_of(estimator) if package == "sklearn" else LIBRARIES.get(package)
    return None if datatype is None else described_tensor(method, datatype, [-1, width], **parameters)


def float_of(estimator: Any) -> str:
    """The datatype of the numbers that an estimator was fitted with: FP32 where it says so, else FP64."""
    for attribute in WIDE:
        values = getattr(estimator, attribute, None)
        values = values[0] if isinstance(values, list) and values else values
        if isinstance(values, np.ndarray):
            return "FP32" if values.dtype == np.float32 else "FP64"
    return "FP64"


def _prediction(last: Any, classes: Any) -> MetadataTensor | None:
    kind = getattr(last, "_estimator_type", None) or _kind(last)
    if isinstance(classes, np.ndarray) and kind in ("classifier", None):
        return class_output("predict", classes, "FP64") if classes.ndim == 1 else None
    if isinstance(classes, list):
        datatypes = {to_datatype(np.asarray(each).dtype).value for each in classes}
        return (
            described_tensor("predict", datatypes.pop(), [-1, len(classes)]) if len(datatypes) == 1 else None
        )
    if kind == "regressor":
        return _returned(last, "predict", _targets(last))
    if kind == "clusterer" and isinstance(labels := getattr(last, "labels_", None), np.ndarray):
        return described_tensor("predict", to_datatype(labels.dtype).value, [-1, 1])
    return described_tensor("predict", "INT64", [-1, 1]) if kind == "outlier_detector" else None


def _kind(estimator: Any) -> str | None:
    """Classifier, regressor, clusterer or outlier detector, as the estimator's tags say."""
    tags = getattr(estimator, "__sklearn_tags__", None)
    return None if tags is None else getattr(tags(), "estimator_type", None)


def _targets(regressor: Any) -> int:
    if _is(regressor, "TransformedTargetRegressor"):
        return _targets(_last(regressor.regressor_))
    if _is(regressor, "MultiOutputRegressor", "RegressorChain"):
        return len(regressor.estimators_)
    for attribute in ("n_outputs_", "n_targets_"):
        if isinstance(targets := getattr(regressor, attribute, None), int | np.integer):
            return int(targets)
    for attribute in ("coef_", "intercept_", "_y"):
        targets = getattr(regressor, attribute, None)
        if isinstance(targets, np.ndarray) and targets.ndim == 2:
            return int(targets.shape[0] if attribute == "coef_" else targets.shape[-1])
    return 1


def _transformed(estimator: Any, last: Any) -> MetadataTensor | None:
    """The output of a transformer, if it is an array whose columns have names."""
    if _makes_frames(estimator) or not hasattr(estimator, "get_feature_names_out"):
        return None
    try:
        width = len(estimator.get_feature_names_out())
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return None  # steps that have no names
    dtype = getattr(last, "dtype", None)
    if dtype is not None:
        try:
            return described_tensor("transform", to_datatype(np.dtype(dtype)).value, [-1, width])
        except (CodecError, TypeError):
            return None
    numbers = type(last).__module__.startswith("sklearn.") and not _is(last, "FunctionTransformer")
    count = getattr(last, "n_features_in_", 0)
    if not numbers or "BYTES" in _datatypes(last, count) or _is(last, "ColumnTransformer", "FeatureUnion"):
        return None
    return described_tensor("transform", float_of(last), [-1, width])


def _makes_frames(estimator: Any) -> bool:
    """Whether `set_output` lets an estimator, or a step of it, return data frames."""
    steps = [step for _, step in getattr(estimator, "steps", ())]
    return any(getattr(each, "_sklearn_output_config", None) for each in (estimator, *steps))


def _listed(classes: "np.ndarray[Any, Any]") -> dict[str, str]:
    if (
        len(classes) > MOST_CLASSES
        or classes.ndim != 1
        or not isinstance(classes.tolist()[0], str | int | float)
    ):
        return {}
    return {CLASSES: orjson.dumps(classes.tolist()).decode()}


def _first(estimator: Any) -> Any:
    inner = _inner(estimator)
    if inner is not None:
        return _first(inner)
    for _, step in getattr(estimator, "steps", ()):
        if step not in (None, "passthrough"):
            return _first(step)
    return estimator


def _last(estimator: Any) -> Any:
    inner = _inner(estimator)
    if inner is not None:
        return _last(inner)
    steps = getattr(estimator, "steps", ())
    return _last(steps[-1][1]) if steps else estimator


def _inner(estimator: Any) -> Any:
    """The estimator that a search has chosen; None for any other estimator."""
    return getattr(estimator, "best_estimator_", None)


def _datatypes(estimator: Any, count: int) -> list[str]:
    """The datatype of each feature. An estimator that does not say takes numbers."""
    first = _first(estimator)
    if _is(first, "ColumnTransformer"):
        datatypes = ["FP64"] * count
        for transformer, positions, text in _parts(first):
            kinds = ["BYTES"] if text else _datatypes(transformer, len(positions))
            for position, kind in zip(positions, kinds, strict=False):
                datatypes[position] = kind
        return datatypes
    if _is(first, "FeatureUnion") and getattr(first, "transformer_list", None):
        return _datatypes(first.transformer_list[0][1], count)
    categories = getattr(first, "categories_", None)
    if isinstance(categories, list) and len(categories) == count:
        return [_datatype(each) for each in categories]
    statistics = getattr(first, "statistics_", None)
    if isinstance(statistics, np.ndarray) and len(statistics) == count:
        return [_datatype(statistics)] * count
    if _takes_texts(first):
        return ["BYTES"] * count
    return [float_of(first)] * count


def _datatype(values: Any) -> str:
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    return {"i": "INT64", "u": "INT64", "b": "BOOL", "f": "FP64"}.get(kind, "BYTES")


def _used(estimator: Any, count: int) -> set[int]:
    """The positions of the features that the first step does not drop."""
    first = _first(estimator)
    if not _is(first, "ColumnTransformer"):
        return set(range(count))
    return {position for _, positions, _ in _parts(first) for position in positions}


def _parts(transformer: Any) -> Iterable[tuple[Any, list[int], bool]]:
    """The fitted parts of a `ColumnTransformer`, the positions of their columns, and whether one gets texts."""
    names = [*getattr(transformer, "feature_names_in_", ())]
    every = range(transformer.n_features_in_)
    for _, part, columns in transformer.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        single = isinstance(columns, str | int)
        if isinstance(columns, slice) and isinstance(columns.start or columns.stop, str):
            # A slice of names includes its end.
            start = 0 if columns.start is None else names.index(columns.start)
            columns = range(start, len(names) if columns.stop is None else names.index(columns.stop) + 1)
        listed: list[Any] = (
            [columns] if single else list(every[columns] if isinstance(columns, slice) else columns)
        )
        if listed and all(isinstance(each, bool | np.bool_) for each in listed):
            listed = [position for position, there in enumerate(listed) if there]
        positions = [names.index(each) if isinstance(each, str) else every[each] for each in listed]
        yield part, positions, single and _takes_texts(_first(part))


def _takes_texts(estimator: Any) -> bool:
    return _is(estimator, "CountVectorizer", "HashingVectorizer")


def _is(estimator: Any, *names: str) -> bool:
    """Whether an estimator is of one of scikit-learn's classes of these names."""
    return any(
        each.__name__ in names and each.__module__.partition(".")[0] == "sklearn"
        for each in type(estimator).__mro__
    )


def spelled_by_lightgbm(name: str) -> str:
    """The name of a column as LightGBM keeps it, in its files and in its estimators."""
    return name.replace(" ", "_")


def category_datatype(categories: Iterable[Any]) -> str:
    """The datatype of a column of categories."""
    return "INT64" if all(isinstance(each, int) for each in categories) else "BYTES"
