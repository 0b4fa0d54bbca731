"""Table columns: requests whose inputs have the names of the columns that a model was fitted with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..codecs.decoded_cache import has_decoded
from ..codecs.numpy import decoded, objects
from ..codecs.registry import find_input_codec
from ..codecs.string import StringCodec
from ..codecs.values.base import CHOICES, DESCRIBED, EXAMPLES, NULLABLE, OPTIONAL
from ..errors import InvalidRequest
from ..types import InferenceRequest, MetadataTensor, Parameters, RequestInput
from ..types.datatypes import FLOATS
from ..types.metadata import ROW_SCHEMA

MAY_BE_MISSING = FLOATS | {"BYTES"}
"""Datatypes of columns that can contain missing values."""

SHOWN = 20
"""The maximum number of columns in an error message, because some tables have thousands."""


class Column(NamedTuple):
    """A column of the table that a model was fitted with.

    `used` is whether predictions need it. `category` is whether it is categorical in a data frame.
    `choices` are the allowed categories, if not empty. `examples` are known or typical values. `schema` is
    the JSON schema of a column of JSON documents.
    """

    name: str
    datatype: str
    used: bool = True
    category: bool = False
    choices: Sequence[Any] = ()
    schema: str | None = None
    examples: Sequence[Any] = ()


class Columns:
    """Converts the inputs of a request to a table, with the columns in the order of the model.

    The table is a data frame if `frames` is true and pandas is installed, otherwise an array. `spelled`
    converts a client's column name to the framework's.
    """

    def __init__(
        self, columns: Sequence[Column], *, frames: bool, spelled: Callable[[str], str] | None = None
    ) -> None:
        self.columns = columns
        self._names = [column.name for column in columns]
        self._known = frozenset(self._names)
        self._frames = frames and find_spec("pandas") is not None
        # An array needs all columns, because its columns are positional.
        self._required = [column.name for column in columns if column.used or not self._frames]
        self._spelled = spelled
        self._categories = dict.fromkeys((column.name for column in columns if column.category), "category")
        self._choices = {column.name: column.choices for column in columns if column.choices}
        self._index: Any = None

    def takes(self, request: InferenceRequest) -> bool:
        """Whether the inputs of a request are columns: several, or one with a column's name and shape.

        A single tensor with the shape of the table is the table, regardless of its name. A content type
        overrides both.
        """
        inputs = request.inputs
        if len(inputs) == 1:
            tensor = inputs[0]
            if len(tensor.shape) == 2 and tensor.shape[1] == len(self._names):
                return False
            if not self._is_column(tensor):
                return False
        elif not inputs:
            return False
        parameters = request.parameters
        return (parameters is None or parameters.content_type is None) and not has_decoded(request)

    def table(self, request: InferenceRequest) -> Any:
        """Return the table of a request with columns. Raises InvalidRequest naming the column."""
        table = {self._name(tensor.name): _values(tensor) for tensor in request.inputs}
        for name in table:
            if name not in self._known:
                raise InvalidRequest(f'column "{name}" is not one of the model\'s: {self.listed()}')
        for name in self._required:
            if name not in table:
                raise InvalidRequest(f'column "{name}" is missing; the model has {self.listed()}')
        first, *others = table.items()
        for name, values in others:
            if len(values) != len(first[1]):
                raise InvalidRequest(
                    f'column "{name}" has {len(values)} rows, and "{first[0]}" has {len(first[1])}'
                )
        return self._assemble({name: table[name] for name in self._names if name in table})

    def check_numeric_columns(self, frame: Any) -> None:
        """Raise InvalidRequest if a numeric column contains text. Called when the model rejects the frame."""
        for name in (column.name for column in self.columns if column.datatype != "BYTES"):
            values = frame.get(name, ())
            if not len(values) or values.dtype.kind != "O":
                continue
            for value in values:
                try:
                    float(value)
                except (TypeError, ValueError):
                    raise InvalidRequest(f'column "{name}" takes numbers, got {value!r:.60}') from None

    def ordered(self, frame: Any) -> Any:
        """Convert categorical columns of a data frame, and reorder its columns if they are the model's."""
        names = list(frame.columns)
        self._reject_unknown(frame)
        plain = [name for name in self._categories if name in names and frame[name].dtype.name != "category"]
        if plain:
            frame = frame.astype(dict.fromkeys(plain, "category"))
        if names == self._names or len(names) != len(self._names) or set(names) != self._known:
            return frame
        return frame[self._names]

    def _reject_unknown(self, frame: Any) -> None:
        """Raise InvalidRequest for an unknown category, which XGBoost would mistake for another one."""
        for name in self._choices.keys() & frame.columns:
            values = frame[name]
            # Raw bytes have no null, so missing strings are empty.
            unknown = values[values.notna() & ~values.isin([*self._choices[name], ""])].tolist()
            if unknown:
                raise InvalidRequest(f'column "{name}": the model was fitted without {unknown[0]!r:.60}')

    def tensors(self) -> tuple[MetadataTensor, ...]:
        """Return the columns as the inputs in metadata."""
        return tuple(
            described(
                column.name,
                column.datatype,
                [-1],
                **({} if column.used else {OPTIONAL: True}),
                **({NULLABLE: True} if column.datatype in MAY_BE_MISSING else {}),
                **({CHOICES: orjson.dumps(column.choices).decode()} if column.choices else {}),
                **({EXAMPLES: orjson.dumps(column.examples).decode()} if column.examples else {}),
                **({ROW_SCHEMA: column.schema} if column.schema else {}),
            )
            for column in self.columns
        )

    def _is_column(self, tensor: RequestInput) -> bool:
        shape = tensor.shape
        return self._name(tensor.name) in self._known and (
            len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)
        )

    def _name(self, name: str) -> str:
        return name if self._spelled is None or name in self._known else self._spelled(name)

    def listed(self) -> str:
        """Return the column names for an error message."""
        more = len(self._names) - SHOWN
        return ", ".join(self._names[:SHOWN]) + (f" and {more} more" if more > 0 else "")

    def _assemble(self, table: Mapping[str, Any]) -> Any:
        dtypes = {values.dtype for values in table.values()}
        alike = len(dtypes) == 1 and np.dtype(object) not in dtypes and len(table) == len(self._names)
        if not self._frames:
            return np.column_stack([*table.values()])
        import pandas as pd  # Imported lazily: pandas is an extra.

        if self._categories:
            frame = pd.DataFrame(dict(table))
            self._reject_unknown(frame)
            frame = frame.astype(self._categories)
            for name in self._categories:
                if name in frame and frame[name].cat.categories.empty:  # XGBoost fails without a category
                    frame[name] = frame[name].cat.set_categories([""])
            return frame
        if not alike:
            return pd.DataFrame(dict(table))
        # A single block is several times faster to create than a frame of separate columns.
        if self._index is None:
            self._index = pd.Index(self._names)
        return pd.DataFrame(np.column_stack([*table.values()]), columns=self._index, copy=False)


def described(name: str, datatype: str, shape: Iterable[int], **parameters: Any) -> MetadataTensor:
    """Return a tensor for metadata that describes the model but is not enforced."""
    content = {"content_type": "str"} if datatype == "BYTES" else {}
    return MetadataTensor(
        name=name,
        datatype=datatype,
        shape=list(shape),
        parameters=Parameters(**{**content, **parameters, DESCRIBED: True}),
    )


def _values(tensor: RequestInput) -> "np.ndarray[Any, Any]":
    """Return the values of a column, one per row. Raises InvalidRequest or CodecError."""
    shape = tensor.shape
    if len(shape) != 1 and (len(shape) != 2 or shape[1] != 1):
        raise InvalidRequest(f'column "{tensor.name}" takes one value for each row, got shape {shape}')
    content = None if tensor.parameters is None else tensor.parameters.content_type
    codec = find_input_codec(content_type=content) if content else None
    if codec is None and tensor.datatype != "BYTES":
        return decoded(tensor).reshape(-1)
    payload = (codec or StringCodec).decode_input(tensor)
    if isinstance(payload, np.ndarray) and payload.dtype.kind != "U":
        return payload.reshape(-1)
    return objects(payload.reshape(-1).tolist() if isinstance(payload, np.ndarray) else list(payload))
