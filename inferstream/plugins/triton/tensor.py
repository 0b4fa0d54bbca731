"""The tensor class of the Triton Python backend."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from inferstream.errors import InvalidOutput
from inferstream.ext.values import DTYPES, object_array, to_bytes, to_datatype
from inferstream.ext.values import encode_array as encoded
from inferstream.types import RequestInput, ResponseOutput, TensorData

NUMBERS = (
    *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
    *("FP16", "FP32", "FP64", "STRING", "BF16"),
)
"""Datatypes of a configuration by number, starting at 1."""


class WrongTensor(InvalidOutput, TypeError):
    """Raised if model code creates a tensor from a value that is not an array."""


class BackendTensor:
    """An array with a name. Strings are `bytes` in an object array."""

    def __init__(self, name: str, array: npt.NDArray[Any]) -> None:
        if not isinstance(array, np.ndarray):
            raise WrongTensor(f'Tensor "{name}" must be a NumPy array, got a {type(array).__name__}.')
        self._name = name
        self._array = array

    @classmethod
    def of(cls, tensor: RequestInput) -> Self:
        """Convert a request input."""
        if tensor.datatype == "BYTES":
            return cls(tensor.name, object_array(to_bytes(tensor.data.flat())).reshape(tensor.shape))
        array = tensor.data.to_numpy(tensor.datatype, tensor.shape)
        return cls(tensor.name, array if array.flags.writeable else array.copy())

    def to_output(self) -> ResponseOutput:
        """Convert to a response output. Raises CodecError if the protocol has no datatype for the array."""
        array = self._array
        if array.dtype.kind not in "OSU":
            tensor = encoded(ResponseOutput, self._name, array)
            tensor.shape = [*array.shape]
            return tensor
        texts = [_to_bytes(each) for each in array.reshape(-1)]
        return ResponseOutput.of(self._name, [*array.shape], "BYTES", TensorData(texts))

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> npt.NDArray[Any]:
        return self._array

    def shape(self) -> list[int]:
        return [*self._array.shape]

    def triton_dtype(self) -> int:
        """Return the number of the datatype in a configuration. Raises CodecError."""
        return numpy_to_triton_type(self._array.dtype)

    def is_cpu(self) -> bool:
        """Whether it is in CPU memory. Always true."""
        return True

    def to_dlpack(self) -> Any:
        return self._array.__dlpack__()

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    @classmethod
    def from_dlpack(cls, name: str, tensor: Any) -> Self:
        """Create a tensor that shares the memory of a DLPack tensor or capsule."""
        return cls(name, np.from_dlpack(tensor if hasattr(tensor, "__dlpack__") else _Capsule(tensor)))


class _Capsule:
    """Wraps a DLPack capsule in an object that NumPy accepts."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # CPU memory.


def _to_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def triton_string_to_numpy(name: str) -> Any:
    """Return the NumPy type for a datatype such as `TYPE_FP32`. Raises ValueError."""
    return _dtype(name.removeprefix("TYPE_"), name)


def triton_to_numpy_type(number: int) -> Any:
    """Return the NumPy type for the number of a datatype. Raises ValueError."""
    return _dtype(NUMBERS[number - 1] if 0 < number <= len(NUMBERS) else "", number)


TRITON_STRING_TO_NUMPY = {
    f"TYPE_{name}": np.object_ if name == "STRING" else DTYPES[name].type
    for name in NUMBERS
    if name != "BF16"
}
"""NumPy types by the datatypes of a configuration."""


def _dtype(name: str, said: object) -> Any:
    if name == "STRING":
        return np.object_
    if name not in NUMBERS:
        raise ValueError(f"{said!r} is no datatype of a configuration")
    return DTYPES[name].type


def numpy_to_triton_type(dtype: Any) -> int:
    """Return the datatype number for a NumPy type. Raises CodecError."""
    name = str(to_datatype(np.dtype(dtype)).value)
    return NUMBERS.index("STRING" if name == "BYTES" else name) + 1


def serialize_byte_tensor(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Encode strings in the wire format, each with a length prefix, as an array of bytes."""
    texts = TensorData([_to_bytes(each) for each in array.reshape(-1)])
    return np.frombuffer(texts.to_raw("BYTES"), np.uint8)


def deserialize_bytes_tensor(encoded: bytes | npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Decode strings from the wire format. Raises ValueError."""
    return object_array(TensorData.from_raw(np.frombuffer(encoded, np.uint8).data, "BYTES").flat())
