"""Data frames with the columns of an MLflow signature, of the dtypes that it asks for."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson

from inferstream.ext.runtimes import Column, Columns
from inferstream.ext.values import to_datatype

from ..errors import CodecError, InvalidRequest
from ..types import InferenceRequest

NUMBERS = {
    "boolean": np.dtype(np.bool_),
    "integer": np.dtype(np.int32),
    "long": np.dtype(np.int64),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}
"""The dtypes of MLflow's types."""

DATATYPES = {name: to_datatype(dtype).value for name, dtype in NUMBERS.items()}
"""The protocol's datatypes of MLflow's types. All others are BYTES: texts, dates, base64, and JSON."""

DOCUMENTS = ("{}", '{"type": "array"}')
"""The schemas of columns whose types have no name: of objects and maps, and of arrays."""


class SignatureTable:
    """Makes the frame of a request. Made at load, of the columns of a signature.

    Numbers become wider and never narrower; MLflow refuses some of these, and quotes values when it does.
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

    def of_columns(self, request: InferenceRequest) -> Any:
        """The frame of a request whose inputs are columns. Raises InvalidRequest, which names the column."""
        return self._typed(self.columns.table(request))

    def of(self, values: Any, names: str) -> Any:
        """The frame of a decoded request: of a frame, or of rows of all columns.

        Raises InvalidRequest, with the `names` of the request's inputs.
        """
        import pandas as pd  # late: pandas is an extra

        if isinstance(values, pd.DataFrame):
            for name, required in zip(self._types, self._required, strict=True):
                if required and name not in values:
                    raise InvalidRequest(f'column "{name}" is missing; the model has {self.columns.listed()}')
            return self._typed(values[[name for name in self._types if name in values]].copy(deep=False))
        array = np.asarray(values)
        width = len(self._types)
        rows = array.reshape(-1, 1) if array.ndim == 1 and width == 1 else array
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InvalidRequest(
                f"{names}: the model takes shape {[-1, width]}, got {list(array.shape)}; "
                f"or the columns {self.columns.listed()}"
            )
        return self._typed(pd.DataFrame(rows, columns=[*self._types]))

    def _typed(self, frame: Any) -> Any:
        for name in frame:
            column = frame[name]
            typed = _typed(name, column, self._types[name])
            if typed is not column:
                frame[name] = typed
        return frame


def _typed(name: str, column: Any, kind: str) -> Any:
    """A column as MLflow's type. Raises InvalidRequest."""
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
    """Values of texts: dates, bytes, and what MLflow calls arrays, objects and maps."""
    import pandas as pd  # late: pandas is an extra

    if kind == "string":
        return column
    if kind == "datetime":
        # MLflow takes times without a zone; those with one become UTC.
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
