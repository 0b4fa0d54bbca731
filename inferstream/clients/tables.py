"""Converts data frames and lists of rows to the arguments of a call."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from ..codecs.numpy import encoded
from ..codecs.values.frames import is_pandas_class
from ..errors import InvalidRequest
from ..protos.flat_values import to_columns
from ..types import MetadataTensor, Parameters, RequestInput, TensorData

if TYPE_CHECKING:
    import pandas as pd

    class DataFrame(Protocol):
        """A `pandas.DataFrame`, for type checkers without pandas."""

        @property
        def columns(self) -> Any: ...

        def to_numpy(self) -> Any: ...

    Arguments = Mapping[str, Any] | Sequence[Mapping[str, Any]] | DataFrame


class Table(Mapping[str, Any]):
    """The columns of a data frame by name. The types of the model determine how they are sent."""

    def __init__(self, frame: "pd.DataFrame") -> None:
        self.frame = frame

    def __getitem__(self, name: str) -> list[Any]:
        column: list[Any] = self.frame[name].tolist()
        return column

    def __iter__(self) -> Iterator[str]:
        return map(str, self.frame)

    def __len__(self) -> int:
        return len(self.frame.columns)

    def tensors(self, described: Sequence[MetadataTensor] = ()) -> dict[str, RequestInput]:
        """Return one tensor per column. A column without any values has the datatype in `described`.

        Raises CodecError.
        """
        from ..codecs.pandas import PandasCodec  # imported lazily: pandas is an extra

        inputs = PandasCodec.encode_request(self.frame, use_bytes=False).inputs
        tensors = {tensor.name: tensor for tensor in inputs}
        for tensor in described:
            if tensor.name in self.frame and self.frame[tensor.name].isna().all():
                tensors[tensor.name] = encode_missing(tensor, [None] * len(self.frame))
        return tensors


class OfColumns(dict[str, Any]):
    """The tensors of a data frame for a model whose types are unknown.

    The request has the content type `pd`.
    """


def merge_arguments(arguments: "Arguments | None", named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments of a call: a mapping, a list of rows or a data frame, merged with the named ones.

    Raises TypeError.
    """
    if is_pandas_class(type(arguments), "DataFrame"):
        arguments = Table(cast("pd.DataFrame", arguments))
    if isinstance(arguments, Table) and not named:
        return arguments
    if isinstance(arguments, Sequence):
        try:
            arguments = to_columns(list(arguments))
        except InvalidRequest as error:
            raise TypeError(f"the arguments are no mapping and no rows: {error.message}") from None
    return {**cast("Mapping[str, Any]", arguments or {}), **named}


def encode_missing(tensor: MetadataTensor, column: Any) -> Any:
    """Return the tensor of a column in which some values are None or NaN.

    Any other column is returned unchanged.
    """
    values = list(column) if isinstance(column, list | tuple) else [column]
    known = [value for value in values if value is not None and value == value]
    if len(known) == len(values):
        return column
    if all(isinstance(value, str) for value in known) and (known or tensor.datatype == "BYTES"):
        texts = [value if isinstance(value, str) else None for value in values]
        text = Parameters(content_type="str")
        return RequestInput.of(tensor.name, [len(texts), 1], "BYTES", TensorData(texts), text)
    if not all(isinstance(value, int | float) for value in known):
        return column
    numbers = [np.nan if value is None else value for value in values]
    return encoded(RequestInput, tensor.name, np.array(numbers, float).reshape(-1, 1))
