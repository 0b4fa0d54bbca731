"""Example values of the columns that a scikit-learn estimator was fitted with, read from its attributes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

MAX_EXAMPLES = 20
"""Maximum number of examples of a column."""

DIGITS = 4
"""Significant digits of a number, because means of training data have many."""

CENTERS = ("statistics_", "mean_", "center_", "data_min_", "theta_")
"""Attributes with one typical number per column, or with several in a matrix."""

Parts = Callable[[Any], Iterator[tuple[Any, Sequence[int]]]]


def find_examples(estimator: Any, count: int, parts: Parts) -> list[list[Any]]:
    """Return known or typical values of each column, the first of which is an example. Empty if none are known.

    `parts` yields the fitted parts of a `ColumnTransformer` and the positions of their columns.
    """
    examples: list[list[Any]] = [[] for _ in range(count)]
    for step in _steps(estimator):
        if getattr(step, "transformers_", None) is not None:
            for part, positions in parts(step):
                known = [] if isinstance(part, str) else find_examples(part, len(positions), parts)
                for position, values in zip(positions, known, strict=False):
                    examples[position] = examples[position] or values
            return examples
        own = _read_attributes(step, count)
        examples = [old or new for old, new in zip(examples, own or examples, strict=True)]
    return examples


def _steps(estimator: Any) -> Iterator[Any]:
    """Yield the steps of a pipeline until one of them has other columns."""
    inner = getattr(estimator, "best_estimator_", None)
    if inner is not None:
        yield from _steps(inner)
        return
    steps = [step for _, step in getattr(estimator, "steps", ()) if step not in (None, "passthrough")]
    if not steps:
        yield estimator
        return
    width = getattr(steps[0], "n_features_in_", None)
    for step in steps:
        if getattr(step, "n_features_in_", None) != width or (
            step is not steps[0] and hasattr(step, "steps")
        ):
            return
        yield from _steps(step)
        if hasattr(step, "categories_") or hasattr(step, "transformers_"):
            return  # the next steps receive codes


def _read_attributes(step: Any, count: int) -> list[list[Any]] | None:
    categories = getattr(step, "categories_", None)
    if isinstance(categories, list) and len(categories) == count:
        return [_to_plain(values) for values in categories]
    for attribute in CENTERS:
        values = getattr(step, attribute, None)
        if attribute == "data_min_" and isinstance(values, np.ndarray):
            values = (values + step.data_max_) / 2
        if attribute == "theta_" and isinstance(values, np.ndarray):
            values = values.mean(axis=0)
        if isinstance(values, np.ndarray) and values.shape == (count,):
            return [_to_plain([value]) for value in values]
    return None


def _to_plain(values: Any) -> list[Any]:
    """Return strings, booleans and rounded numbers. Missing values and other types are left out."""
    plain: list[Any] = []
    for value in values[:MAX_EXAMPLES]:
        if isinstance(value, bool | np.bool_):
            plain.append(bool(value))
        elif isinstance(value, int | np.integer):
            plain.append(int(value))
        elif isinstance(value, float | np.floating):
            if np.isfinite(value):
                plain.append(float(f"{value:.{DIGITS}g}"))
        elif isinstance(value, str):
            plain.append(str(value))
    return plain
