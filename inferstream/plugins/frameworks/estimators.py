"""Inputs and outputs of a fitted scikit-learn estimator, read from its attributes without running it."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import orjson

from inferstream.errors import CodecError
from inferstream.ext.runtimes import Column, described_tensor
from inferstream.ext.values import to_datatype
from inferstream.types import MetadataTensor

from .training_data import find_examples

CLASSES = "classes"
"""Metadata parameter of an output: the classes of a classifier as a JSON list, in probability order."""

EXAMPLES = "examples"
"""Metadata parameter of an input: typical rows as a JSON list."""

MAX_CLASSES = 1000
"""Maximum number of classes to list in metadata."""

WIDE = ("coef_", "components_", "cluster_centers_", "mean_", "scale_", "coefs_")
"""Attributes with the dtype of the training data."""


def find_columns(estimator: Any) -> list[Column] | None:
    """Return the columns of the data frame that an estimator was fitted with, or None without one."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return None
    used = _used_features(estimator, len(names))
    datatypes = _datatypes(estimator, len(names))
    examples = find_examples(estimator, len(names), _fitted_parts)
    return [
        Column(str(name), datatype, position in used, examples=examples[position])
        for position, (name, datatype) in enumerate(zip(names, datatypes, strict=True))
    ]


def belongs_to(estimator: Any, package: str) -> bool:
    """Return whether the estimator that receives the columns belongs to a package."""
    return type(_first(estimator)).__module__.partition(".")[0] == package


def describe_input(estimator: Any) -> MetadataTensor | None:
    """Return the input of an estimator fitted with an array or strings, or None if it is uncertain."""
    count = getattr(estimator, "n_features_in_", None)
    if count is None:
        return described_tensor("text", "BYTES", [-1]) if _takes_texts(_first(estimator)) else None
    datatypes = set(_datatypes(estimator, int(count)))
    datatype = "BYTES" if "BYTES" in datatypes else datatypes.pop() if len(datatypes) == 1 else "FP64"
    known = find_examples(estimator, int(count), _fitted_parts)
    examples = {EXAMPLES: orjson.dumps([[values[0] for values in known]]).decode()} if all(known) else {}
    return described_tensor("features", datatype, [-1, int(count)], **examples)


def describe_output(estimator: Any, method: str) -> MetadataTensor | None:
    """Return the output for the result of a method, or None if its datatype or shape is uncertain."""
    last = _last(estimator)
    classes = getattr(estimator, "classes_", None)
    if method in ("predict_proba", "predict_log_proba", "decision_function"):
        if not isinstance(classes, np.ndarray):
            return None
        single = method == "decision_function" and len(classes) == 2
        return _numeric_output(last, method, 1 if single else len(classes), **_class_labels(classes))
    if method == "predict":
        return _prediction(last, classes)
    return _transformer_output(estimator, last) if method == "transform" else None


def class_output(method: str, classes: Any, float_datatype: str) -> MetadataTensor | None:
    """Return the output of a classifier, or None unless the method is `predict` or `predict_proba`."""
    array = np.asarray(classes)
    if method == "predict":
        return described_tensor(method, to_datatype(array.dtype).value, [-1, 1], **_class_labels(array))
    if method == "predict_proba":
        return described_tensor(method, float_datatype, [-1, len(array)], **_class_labels(array))
    return None


LIBRARIES = {"sklearn": "FP64", "lightgbm": "FP64", "xgboost": "FP32"}
"""Datatypes of the numbers that estimators of these packages return."""


def _numeric_output(estimator: Any, method: str, width: int, **parameters: Any) -> MetadataTensor | None:
    """Return a numeric output, or None for an estimator of another package, whose datatype is unknown."""
    package = type(estimator).__module__.partition(".")[0]
    datatype = infer_float_datatype(estimator) if package == "sklearn" else LIBRARIES.get(package)
    return None if datatype is None else described_tensor(method, datatype, [-1, width], **parameters)


def infer_float_datatype(estimator: Any) -> str:
    """Return the datatype of the training data: FP32 if an attribute shows it, else FP64."""
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
        return _numeric_output(last, "predict", _targets(last))
    if kind == "clusterer" and isinstance(labels := getattr(last, "labels_", None), np.ndarray):
        return described_tensor("predict", to_datatype(labels.dtype).value, [-1, 1])
    return described_tensor("predict", "INT64", [-1, 1]) if kind == "outlier_detector" else None


def _kind(estimator: Any) -> str | None:
    """Return the type of an estimator from its tags: classifier, regressor, clusterer or outlier detector."""
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


def _transformer_output(estimator: Any, last: Any) -> MetadataTensor | None:
    """Return the output of a transformer if it is an array with column names, else None."""
    if _makes_frames(estimator) or not hasattr(estimator, "get_feature_names_out"):
        return None
    try:
        width = len(estimator.get_feature_names_out())
    except (AttributeError, NotImplementedError, TypeError, ValueError):
        return None  # some steps have no feature names
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
    return described_tensor("transform", infer_float_datatype(last), [-1, width])


def _makes_frames(estimator: Any) -> bool:
    """Return whether `set_output` makes an estimator or one of its steps return data frames."""
    steps = [step for _, step in getattr(estimator, "steps", ())]
    return any(getattr(each, "_sklearn_output_config", None) for each in (estimator, *steps))


def _class_labels(classes: "np.ndarray[Any, Any]") -> dict[str, str]:
    if (
        len(classes) > MAX_CLASSES
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
    """Return the estimator that a search selected, or None for any other estimator."""
    return getattr(estimator, "best_estimator_", None)


def _datatypes(estimator: Any, count: int) -> list[str]:
    """Return the datatype of each feature. Unknown features are numeric."""
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
    return [infer_float_datatype(first)] * count


def _datatype(values: Any) -> str:
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    return {"i": "INT64", "u": "INT64", "b": "BOOL", "f": "FP64"}.get(kind, "BYTES")


def _used_features(estimator: Any, count: int) -> set[int]:
    """Return the positions of the features that the first step does not drop."""
    first = _first(estimator)
    if not _is(first, "ColumnTransformer"):
        return set(range(count))
    return {position for _, positions, _ in _parts(first) for position in positions}


def _parts(transformer: Any) -> Iterable[tuple[Any, list[int], bool]]:
    """Yield each fitted part of a `ColumnTransformer`, its column positions, and whether it accepts text."""
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


def _fitted_parts(transformer: Any) -> Iterator[tuple[Any, list[int]]]:
    yield from ((part, positions) for part, positions, _ in _parts(transformer))


def _takes_texts(estimator: Any) -> bool:
    return _is(estimator, "CountVectorizer", "HashingVectorizer")


def _is(estimator: Any, *names: str) -> bool:
    """Return whether an estimator is an instance of a scikit-learn class with one of these names."""
    return any(
        each.__name__ in names and each.__module__.partition(".")[0] == "sklearn"
        for each in type(estimator).__mro__
    )


def spell_for_lightgbm(name: str) -> str:
    """Return a column name as LightGBM stores it in its files and estimators."""
    return name.replace(" ", "_")


def category_datatype(categories: Iterable[Any]) -> str:
    """Return the datatype of a categorical column."""
    return "INT64" if all(isinstance(each, int) for each in categories) else "BYTES"
