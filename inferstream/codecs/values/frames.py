"""pandas data frames, as JSON of their columns."""

from typing import TYPE_CHECKING, Any

import orjson

from ...types.json_encoding import encode, to_columns
from .base import SCHEMA, SingleValue, format_brief
from .scalars import parse_json

if TYPE_CHECKING:
    import pandas as pd


_TABLE = '{"type":["object","array"],"examples":[{"column":[1]}]}'
"""The JSON schema of a table with any columns."""


class FrameValue(SingleValue):
    """Encodes a `pandas.DataFrame` as one JSON element: an object of columns or a list of row objects."""

    datatype = "BYTES"
    content = "pd_json"
    reads_apart = True

    def facts(self) -> dict[str, Any]:
        return {SCHEMA: _TABLE}

    def from_element(self, element: Any) -> "pd.DataFrame":
        return self.from_json(parse_json(element))

    def element(self, value: Any) -> str:
        return encode(_columns(value)).decode()

    def from_json(self, value: Any) -> "pd.DataFrame":
        import pandas as pd  # lazy, because pandas is an extra

        try:
            return pd.DataFrame(_document(value))
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"no data frame: {error}") from None

    def from_flat(self, value: Any) -> tuple[list[int], Any]:
        return [1], [encode(_document(value)).decode()]

    def to_json(self, value: Any) -> Any:
        return orjson.Fragment(encode(_columns(value)))


class SeriesValue(FrameValue):
    """Encodes a `pandas.Series` as a JSON list, inside objects and lists."""

    def from_json(self, value: Any) -> Any:
        import pandas as pd  # lazy, because pandas is an extra

        if not isinstance(value, list):
            raise TypeError(f"takes a list, got {format_brief(value)}")
        return pd.Series(value)

    def write(self, value: Any) -> tuple[list[int], Any]:
        if type(value).__name__ != "Series":
            raise TypeError(f"takes a series, got {format_brief(value)}")
        return [1], [value]


def _document(value: Any) -> Any:
    """Check that a value is an object of columns or a list of rows. Raises TypeError.

    pandas itself would accept almost anything.
    """
    if isinstance(value, list):
        for index, row in enumerate(value):
            if not isinstance(row, dict):
                raise TypeError(f"takes rows as objects, and row {index} is {format_brief(row)}")
    elif not isinstance(value, dict) or not value:
        raise TypeError(f"takes an object of columns or a list of rows, got {format_brief(value)}")
    return value


def _columns(frame: Any) -> dict[str, list[Any]]:
    if type(frame).__name__ != "DataFrame":
        raise TypeError(f"takes a data frame, got {format_brief(frame)}")
    return to_columns(frame)


def is_pandas_class(hint: Any, name: str) -> bool:
    """Whether `hint` is the pandas class with this name. Does not import pandas."""
    return isinstance(hint, type) and hint.__module__.partition(".")[0] == "pandas" and hint.__name__ == name
