"""NumPy arrays, content type `np`."""

import typing
from collections.abc import Iterable, Sequence
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CodecError
from ..types import Datatype, MetadataTensor, Parameters, RequestInput, ResponseOutput, TensorData
from ..types.conversion import as_array
from ..types.datatypes import DTYPES
from ..types.tensors import AnyTensor
from .base import SingleInputRequestCodec, TensorCodec, content_type
from .registry import register_input_codec, register_request_codec

Array = npt.NDArray[Any]

_DATATYPES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}
_SCALARS: dict[Any, str] = {dtype.type: name for dtype, name in _DATATYPES.items()}
_SCALARS |= dict.fromkeys((np.str_, np.bytes_, np.object_), "BYTES")


def to_dtype(datatype: Datatype | str) -> np.dtype[Any]:
    """Return the NumPy dtype of a datatype, which is `object` for BYTES."""
    return DTYPES.get(str(getattr(datatype, "value", datatype)), np.dtype(object))


def to_datatype(dtype: np.dtype[Any]) -> Datatype:
    """Return the datatype of a NumPy dtype. Raises CodecError if no datatype matches."""
    if dtype.kind in "OSU":
        return Datatype.BYTES
    name = _DATATYPES.get(dtype.newbyteorder("<"))
    if name is None:
        raise CodecError(f"NumPy arrays of {dtype} have no V2 datatype.")
    return Datatype(name)


def batch_shape(shape: list[int]) -> list[int]:
    """Return the shape on the wire: [N] becomes [N, 1], and a scalar becomes [1]."""
    return [1] if not shape else [*shape, 1] if len(shape) == 1 else shape


def encoded(
    kind: type[AnyTensor], name: str, payload: Any, parameters: Parameters | None = None
) -> AnyTensor:
    """Encode an array as a tensor, without copying numbers. Raises CodecError naming the tensor."""
    try:
        array = payload if isinstance(payload, np.ndarray) else _array(payload)
        datatype = _DATATYPES.get(array.dtype) or to_datatype(array.dtype).value
        data = TensorData(_elements(array) if datatype == "BYTES" else array)
    except (CodecError, TypeError, ValueError) as error:
        raise CodecError(f'{kind.what} "{name}": {error}', kind is ResponseOutput) from None
    return kind.of(name, batch_shape(list(array.shape)), datatype, data, parameters)


def _array(payload: Any) -> Array:
    array = as_array(payload)
    if array.dtype == object and not all(isinstance(value, (str, bytes, NoneType)) for value in array.flat):
        raise TypeError(f"a {type(payload).__name__} is no array")
    return array


def _elements(array: Array) -> list[Any]:
    values: list[Any] = array.reshape(-1).tolist()
    return [value.encode() for value in values] if array.dtype.kind == "U" else values


def decoded(tensor: RequestInput | ResponseOutput, is_writable: bool = False) -> Array:
    """Decode a tensor to an array of the same shape. If `is_writable` is set, a read-only array is copied.

    Raises CodecError naming the tensor.
    """
    try:
        if tensor.datatype == "BYTES":
            return _strings(tensor.data.flat()).reshape(tensor.shape)
        array = tensor.data.to_numpy(tensor.datatype, tensor.shape)
        return array.copy() if is_writable and not array.flags.writeable else array
    except (TypeError, ValueError) as error:
        raise CodecError(f'{tensor.what} "{tensor.name}": {error}') from None


def make_writable(array: Array) -> Array:
    """Return an array that model code can write to.

    Read-only arrays are copied, because their memory may be shared.
    """
    return array if array.flags.writeable else array.copy()


def _strings(values: list[Any]) -> Array:
    return np.array(values, dtype=str) if all(isinstance(value, str) for value in values) else objects(values)


def objects(values: Sequence[Any]) -> Array:
    """Return a one-dimensional array of these objects.

    A fixed-width dtype would pad bytes and cut trailing NULs.
    """
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def octets(values: Iterable[Any]) -> list[bytes]:
    """Convert strings and bytes to bytes."""
    return [value.encode() if isinstance(value, str) else bytes(value) for value in values]


@register_input_codec
class NumpyCodec(TensorCodec[Array]):
    """Converts between one NumPy array and one tensor.

    - **Shapes.** An array of shape [N] becomes a tensor of shape [N, 1], and a scalar becomes [1], as
      MLServer clients expect. Other shapes are unchanged. Decoding returns the shape of the tensor.
    - **Datatypes.** Numbers and booleans have the datatype that matches their dtype. Strings, bytes and
      objects become BYTES. BF16 decodes to `float32`.
    - **Memory.** Numbers are not copied, except inputs whose bytes the server still needs. So a decoded input
      is writable, and changes to it are not shared. A decoded output may be read-only.
    - **Errors.** CodecError for a dtype without a datatype, and for data that does not fit the datatype and
      shape.
    """

    ContentType = "np"
    TypeHint = np.ndarray

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return isinstance(payload, np.ndarray | np.generic) or hasattr(payload, "detach")

    @classmethod
    def encode_tensor(cls, kind: type[AnyTensor], name: str, payload: Array, **_: Any) -> AnyTensor:
        return encoded(kind, name, payload, content_type(cls.ContentType))

    @classmethod
    def decode_tensor(cls, tensor: RequestInput | ResponseOutput) -> Array:
        return decoded(tensor, isinstance(tensor, RequestInput))

    @classmethod
    def describe_tensor(cls, name: str, hint: Any, is_output: bool) -> MetadataTensor | None:
        """Return the metadata for an array annotation.

        `NDArray[np.float32]` determines the datatype. `ndarray[tuple[int, int], dtype[...]]` also determines
        the rank.
        """
        sizes, dtype = typing.get_args(hint) or (None, None)
        datatype = _SCALARS.get(next(iter(typing.get_args(dtype)), None))
        if datatype is None:
            return None
        dimensions = typing.get_args(sizes)
        shape = [-1, -1] if is_output else [-1]  # Outputs have at least two dimensions, as in MLServer.
        if dimensions and ... not in dimensions:
            shape = batch_shape([-1] * len(dimensions)) if is_output else [-1] * len(dimensions)
        parameters = content_type(cls.ContentType)
        return MetadataTensor(name=name, datatype=datatype, shape=shape, parameters=parameters)


@register_request_codec
class NumpyRequestCodec(SingleInputRequestCodec):
    """Converts between one NumPy array and a request or response with one tensor."""

    InputCodec = NumpyCodec
    ContentType = "np"
