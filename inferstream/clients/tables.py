"""Data frames as the arguments of a call."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from ..codecs.values.frames import is_frame
from ..types import RequestInput

if TYPE_CHECKING:
    import pandas as pd

    Arguments = Mapping[str, Any] | pd.DataFrame


class Table(Mapping[str, Any]):
    """The columns of a data frame by name. What becomes of them depends on what the model takes."""

    def __init__(self, frame: "pd.DataFrame") -> None:
        self.frame = frame

    def __getitem__(self, name: str) -> list[Any]:
        column: list[Any] = self.frame[name].tolist()
        return column

    def __iter__(self) -> Iterator[str]:
        return map(str, self.frame)

    def __len__(self) -> int:
        return len(self.frame.columns)

    def tensors(self) -> dict[str, RequestInput]:
        """One tensor for each column, of the column's own datatype. Raises CodecError."""
        from ..codecs.pandas import PandasCodec  # late: pandas is an extra

        inputs = PandasCodec.encode_request(self.frame, use_bytes=False).inputs
        return {tensor.name: tensor for tensor in inputs}


class OfColumns(dict[str, Any]):
    """The tensors of a data frame for a model of which nothing is known. The request names the content type `pd`."""


def given(arguments: "Arguments | None", named: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of a call: those in a mapping or a data frame, and those by name."""
    if is_frame(type(arguments)):
        arguments = Table(cast("pd.DataFrame", arguments))
    if isinstance(arguments, Table) and not named:
        return arguments
    return {**(arguments or {}), **named}
