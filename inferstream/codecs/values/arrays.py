"""NumPy arrays with a dtype and named dimensions: `TensorInput[np.float32, "batch", 224, 224, 3]`."""

import typing
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from ...errors import CodecError
from ...types import Datatype, RequestInput, ResponseOutput
from ...types.conversion import array_from_values, as_array, cast_exactly
from ...types.datatypes import DTYPES, FLOATS, INTEGERS
from ...types.tensors import AnyTensor
from ..numpy import make_writable, to_datatype
from .base import DIMENSIONS, Value, format_brief

__all__ = ["Array", "Dimension", "TensorHint", "TensorInput", "TensorOutput", "array_for"]

Dimension = int | str | None
"""A size, a name (equal names have equal sizes), or None for any size."""


class TensorHint:
    """An array annotation: the dtype (None for any numeric dtype) and the dimensions, if known."""

    def __init__(self, dtype: Any, dimensions: tuple[Dimension, ...] | None) -> None:
        self.dtype = dtype
        self.dimensions = dimensions

    def __repr__(self) -> str:
        sizes = ", ".join(map(repr, self.dimensions or (...,)))
        return f"Tensor[{getattr(self.dtype, '__name__', self.dtype)}, {sizes}]"

    def __call__(self) -> None:  # `typing` accepts only callables as parts of other annotations
        raise TypeError(f"{self!r} is an annotation")

    def __or__(self, other: Any) -> Any:
        return typing.Union[self, other]  # noqa: UP007  # `|` needs types on both sides

    __ror__ = __or__


if typing.TYPE_CHECKING:
    # Type checkers see the dimensions as metadata, because no type can express sizes and names.
    from typing import Annotated as TensorInput
    from typing import Annotated as TensorOutput
else:

    class TensorInput:
        """`TensorInput[dtype, dimension, ...]` annotates an array.

        A dimension is a size, a name, or None for any size. Equal names have equal sizes within a call.
        """

        def __class_getitem__(cls, parameters: Any) -> TensorHint:
            dtype, *dimensions = parameters if isinstance(parameters, tuple) else (parameters,)
            return TensorHint(dtype, tuple(dimensions) if dimensions else None)

    class TensorOutput(TensorInput):
        """`TensorOutput[dtype, dimension, ...]` annotates an array that a model returns."""


class Array(Value):
    """Encodes a NumPy array as a tensor of the same shape, without copying numbers."""

    content = "np"

    def __init__(self, datatype: str, dimensions: tuple[Dimension, ...] | None = None) -> None:
        self.datatype = datatype
        self.dimensions = dimensions

    @property
    def shape(self) -> list[int]:
        if self.dimensions is None:
            return [-1]
        return [size if isinstance(size, int) else -1 for size in self.dimensions]

    def facts(self) -> dict[str, Any]:
        if self.dimensions is None:
            return {}
        return {DIMENSIONS: orjson.dumps(self.dimensions).decode()}

    def read(self, tensor: RequestInput | ResponseOutput) -> npt.NDArray[Any]:
        if tensor.datatype == "BYTES":
            raise ValueError(f"takes {self.datatype}, got BYTES")
        if tensor.datatype != self.datatype and not _widens(tensor.datatype, self.datatype):
            raise ValueError(f"takes {self.datatype}, got {tensor.datatype}")
        self.sizes(tensor.shape)
        if tensor.datatype == "BOOL" and tensor.data.is_raw:
            tensor.data.check("BOOL", tensor.shape)  # NumPy would accept bytes above 1
        return _decode_array(tensor, self.datatype)

    def write(self, value: Any) -> tuple[list[int], Any]:
        array = value if isinstance(value, np.ndarray) else as_array(value)
        if array.dtype.kind == "O":  # from a data frame
            array = array_from_values(array.tolist(), self.datatype).reshape(array.shape)
        elif array.dtype != DTYPES[self.datatype]:
            array = cast_exactly(array, self.datatype)
        self.sizes([*array.shape])
        return [*array.shape], array.reshape(-1)

    def check(self, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"takes an array, got {format_brief(value)}")
        self.write(value)

    def from_json(self, value: Any) -> npt.NDArray[Any]:
        if not isinstance(value, list | int | float | bool):
            raise TypeError(f"takes nested lists of numbers, got {format_brief(value)}")
        shape = []
        level: Any = value
        while isinstance(level, list):
            shape.append(len(level))
            level = level[0] if level else None
        array = array_from_values(value, self.datatype).reshape(shape)
        self.sizes([*array.shape])
        return array

    def to_json(self, value: Any) -> Any:
        return as_array(value).tolist()

    def sizes(self, shape: list[int]) -> dict[str, int]:
        """Return the sizes of the named dimensions. Raises ValueError if the shape does not fit."""
        if self.dimensions is None:
            return {}
        if len(shape) != len(self.dimensions):
            raise ValueError(f"takes shape {_format_dimensions(self.dimensions)}, got {shape}")
        named: dict[str, int] = {}
        for size, wanted in zip(shape, self.dimensions, strict=True):
            if isinstance(wanted, str):
                fits = named.setdefault(wanted, size) == size
            else:
                fits = wanted in (None, -1, size)
            if not fits:
                raise ValueError(f"takes shape {_format_dimensions(self.dimensions)}, got {shape}")
        return named


class AnyArray(Array):
    """An array of numbers of any dtype. Metadata declares it as FP32, and JSON numbers become FP32."""

    def __init__(self) -> None:
        super().__init__("FP32")

    def read(self, tensor: RequestInput | ResponseOutput) -> npt.NDArray[Any]:
        if tensor.datatype == "BYTES":
            raise ValueError("takes numbers, got BYTES")
        return _decode_array(tensor, tensor.datatype)

    def encode(self, kind: type[AnyTensor], name: str, value: Any) -> AnyTensor:
        array = as_array(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(
                f"takes an array of numbers, got {format_brief(value)}; annotate it to send other values"
            )
        return Array(str(to_datatype(array.dtype).value)).encode(kind, name, array)


def _decode_array(tensor: RequestInput | ResponseOutput, datatype: str) -> npt.NDArray[Any]:
    """Decode a tensor to an array, which is writable if the tensor is an input."""
    array = tensor.data.to_numpy(datatype, tensor.shape)
    return make_writable(array) if isinstance(tensor, RequestInput) else array


def _widens(datatype: str, wanted: str) -> bool:
    """Whether numbers of `datatype` are accepted for `wanted`. Values that do not fit are rejected later."""
    if wanted == "BOOL" or datatype == "BOOL":
        return False
    return datatype in INTEGERS or (datatype in FLOATS and wanted in FLOATS)


def _format_dimensions(dimensions: tuple[Dimension, ...]) -> str:
    return f"[{', '.join('any' if size in (None, -1) else str(size) for size in dimensions)}]"


def array_for(hint: Any) -> Array | None:
    """Return the `Array` for an annotation such as `TensorInput[...]` or `npt.NDArray[np.float32]`.

    Returns None for other annotations. Raises TypeError if the dtype is missing or has no datatype.
    """
    if isinstance(hint, TensorHint) and hint.dtype is None:
        return AnyArray()
    if isinstance(hint, TensorHint):
        return Array(_datatype(hint.dtype, hint), _check_dimensions(hint))
    if hint is np.ndarray:
        raise TypeError("the dtype of the array is missing: write NDArray[np.float32] or TensorInput[...]")
    if typing.get_origin(hint) is not np.ndarray:
        return None
    sizes, dtype = typing.get_args(hint)
    scalar = next(iter(typing.get_args(dtype)), None)
    if not isinstance(scalar, type) or scalar is Any:
        raise TypeError("the dtype of the array is missing: write NDArray[np.float32] or TensorInput[...]")
    dimensions = typing.get_args(sizes)
    known = dimensions and ... not in dimensions
    return Array(_datatype(scalar, hint), tuple(None for _ in dimensions) if known else None)


def _datatype(dtype: Any, hint: Any) -> str:
    try:
        datatype = to_datatype(np.dtype(dtype))
    except (TypeError, CodecError):
        raise TypeError(f"{hint!r} has a dtype without a V2 datatype") from None
    if datatype is Datatype.BYTES:
        raise TypeError(f"{hint!r} is an array of texts: write list[str] or list[bytes]")
    return str(datatype.value)


def _check_dimensions(hint: TensorHint) -> tuple[Dimension, ...] | None:
    for size in hint.dimensions or ():
        named = isinstance(size, str) and size
        sized = isinstance(size, int) and not isinstance(size, bool) and size >= -1
        if size is not None and not named and not sized:
            raise TypeError(f"{hint!r}: {size!r} is neither a size nor a name")
    return hint.dimensions
