"""The base class of codecs that convert a list of values to a BYTES column."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from ..errors import CodecError
from ..types import MetadataTensor, RequestInput, ResponseOutput, TensorData
from ..types.tensors import AnyTensor
from .base import TensorCodec, content_type

Element = str | bytes | None
"""An element of a BYTES tensor. None is a missing value."""

T = TypeVar("T")


def is_list_of(payload: Any, instance_type: type | tuple[type, ...]) -> bool:
    """Whether `payload` is a list that contains only `instance_type`. True for an empty list."""
    return isinstance(payload, list) and all(isinstance(value, instance_type) for value in payload)


def as_list(payload: Any) -> list[Any]:
    """Return the values of a list, an array or another iterable.

    Strings, bytes and other objects become a list of one.
    """
    if isinstance(payload, list):
        return payload
    if isinstance(payload, np.ndarray):
        return list(payload.reshape(-1).tolist())
    if isinstance(payload, Iterable) and not isinstance(
        payload, (str, bytes, bytearray, memoryview, Mapping)
    ):
        return list(payload)
    return [payload]


class ListCodec(TensorCodec[list[T]]):
    """Converts between a list and one BYTES tensor of shape [N, 1].

    Subclasses convert whole lists of elements. A TypeError or ValueError in a subclass becomes a CodecError
    with the same message and the name of the tensor.
    """

    @classmethod
    def to_elements(cls, values: list[Any]) -> list[Any]:
        """Convert values to strings, bytes or None."""
        raise NotImplementedError

    @classmethod
    def from_elements(cls, elements: list[Element]) -> list[T]:
        """Convert strings, bytes or None to values."""
        raise NotImplementedError

    @classmethod
    def describe_tensor(cls, name: str, hint: Any, is_output: bool) -> MetadataTensor | None:
        parameters = content_type(cls.ContentType)
        return MetadataTensor(name=name, datatype="BYTES", shape=[-1, 1], parameters=parameters)

    @classmethod
    def encode_tensor(
        cls, kind: type[AnyTensor], name: str, payload: Any, use_bytes: bool = True, **_: Any
    ) -> AnyTensor:
        try:
            elements = cls.to_elements(payload if type(payload) is list else as_list(payload))
            if use_bytes and len(elements) == 1 and type(elements[0]) is str:
                elements = [elements[0].encode()]  # the usual case of a token, in half the time
            elif use_bytes:
                elements = [value.encode() if isinstance(value, str) else value for value in elements]
            else:
                elements = [value.decode() if isinstance(value, bytes) else value for value in elements]
        except (TypeError, ValueError) as error:
            raise CodecError(
                f'{kind.what} "{name}": cannot be encoded as "{cls.ContentType}": {error}',
                kind is ResponseOutput,
            ) from None
        shape = [len(elements), 1]
        return kind.of(name, shape, "BYTES", TensorData(elements), content_type(cls.ContentType))

    @classmethod
    def decode_tensor(cls, tensor: RequestInput | ResponseOutput) -> list[T]:
        if tensor.datatype != "BYTES":
            raise CodecError(
                f'{tensor.what} "{tensor.name}": the "{cls.ContentType}" codec takes BYTES, got {tensor.datatype}'
            )
        try:
            return cls.from_elements(tensor.data.flat())
        except (TypeError, ValueError) as error:
            raise CodecError(f'{tensor.what} "{tensor.name}": {error}') from None
