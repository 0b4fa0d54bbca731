"""Data frames with the columns and dtypes of an MLflow signature."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from inferstream.errors import CodecError, InvalidRequest
from inferstream.ext.runtimes import Column, Columns
from inferstream.ext.values import to_datatype
from inferstream.types import InferenceRequest

NUMBERS = {
    "boolean": np.dtype(np.bool_),
    "integer": np.dtype(np.int32),
    "long": np.dtype(np.int64),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}
"""NumPy dtypes by MLflow type."""

DATATYPES = {name: to_datatype(dtype).value for name, dtype in NUMBERS.items()}
"""Protocol datatypes by MLflow type. All others are BYTES: strings, dates, base64 and JSON."""

CONTENT_TYPES = {
    **dict.fromkeys(NUMBERS, "np"),
    "string": "str",
    "binary": "base64",
    "datetime": "datetime",
}
"""Content types in MLServer by MLflow type. All others are `pd_json`."""

DOCUMENTS = ("{}", '{"type": "array"}')
"""Schemas of columns with unnamed types: objects and maps, and arrays."""


class SignatureTable:
    """Converts requests to data frames with the columns of a signature.

    Numbers are only widened, never narrowed. MLflow itself rejects some of these conversions with errors that
    quote values.
    """

    def __init__(self, specs: Sequence[Any]) -> None:
        self._types = {
            spec.name or f"input-{position}": str(getattr(spec.type, "name", ""))
            for position, spec in enumerate(specs)
        }
        self.columns = Columns(
            [
                Column(
                    name,
                    DATATYPES.get(kind, "BYTES"),
                    spec.required,
                    schema=None if kind else DOCUMENTS[type(spec.type).__name__ == "Array"],
                )
                for (name, kind), spec in zip(self._types.items(), specs, strict=True)
            ],
            frames=True,
        )
        self._required = [spec.required for spec in specs]

    def frame_from_columns(self, request: InferenceRequest) -> Any:
        """Build a data frame from a request with one input per column. Raises InvalidRequest naming the column."""
        return self._convert_frame(self.columns.table(request))

    def build_frame(self, values: Any, names: str) -> Any:
        """Build a data frame from a decoded request: a data frame, or an array with all columns.

        Raises InvalidRequest naming the inputs (`names`).
        """
        import pandas as pd  # Imported lazily: pandas is an extra.

        if isinstance(values, pd.DataFrame):
            for name, required in zip(self._types, self._required, strict=True):
                if required and name not in values:
                    raise InvalidRequest(f'column "{name}" is missing; the model has {self.columns.listed()}')
            return self._convert_frame(
                values[[name for name in self._types if name in values]].copy(deep=False)
            )
        array = np.asarray(values)
        width = len(self._types)
        rows = array.reshape(-1, 1) if array.ndim == 1 and width == 1 else array
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InvalidRequest(
                f"{names}: the model takes shape {[-1, width]}, got {list(array.shape)}; "
                f"or the columns {self.columns.listed()}"
            )
        return self._convert_frame(pd.DataFrame(rows, columns=[*self._types]))

    def _convert_frame(self, frame: Any) -> Any:
        for name in frame:
            column = frame[name]
            typed = _convert_column(name, column, self._types[name])
            if typed is not column:
                frame[name] = typed
        return frame


def _convert_column(name: str, column: Any, kind: str) -> Any:
    """Convert a column to an MLflow type. Raises InvalidRequest."""
    wanted = NUMBERS.get(kind)
    dtype = column.dtype
    if wanted is not None:
        if dtype == wanted:
            return column
        if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf" or not np.can_cast(dtype, wanted):
            raise InvalidRequest(
                f'column "{name}": the model takes {DATATYPES[kind]}, got {_datatype(dtype)}'
            )
        return column.astype(wanted)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        raise InvalidRequest(f'column "{name}": the model takes BYTES, got {_datatype(dtype)}')
    try:
        return _read(column, kind)
    except (ValueError, TypeError) as error:
        form = {"datetime": "dates in the form of ISO 8601", "binary": "base64"}.get(kind, "JSON")
        raise InvalidRequest(f'column "{name}": the model takes {form}') from error


def _read(column: Any, kind: str) -> Any:
    """Parse strings as dates, bytes, or MLflow arrays, objects and maps."""
    import pandas as pd  # Imported lazily: pandas is an extra.

    if kind == "string":
        return column
    if kind == "datetime":
        # MLflow accepts only times without a time zone. Times with one are converted to UTC.
        return pd.to_datetime(column, format="ISO8601", utc=True).dt.tz_localize(None)
    if kind == "binary":
        return column.map(
            lambda each: each if isinstance(each, bytes) else base64.b64decode(each, validate=True)
        )
    return column.map(lambda each: orjson.loads(each) if isinstance(each, str | bytes) else each)


def _datatype(dtype: Any) -> str:
    try:
        return to_datatype(dtype).value
    except (CodecError, AttributeError):
        return "BYTES"
