"""Tensors in the protocol's raw representation."""

from typing import Any, TypeVar

from inferstream.types import RequestInput, ResponseOutput, TensorData

Tensor = TypeVar("Tensor", RequestInput, ResponseOutput)


def unpack(elem: RequestInput | ResponseOutput, raw: bytes) -> list[Any]:
    """The values in `raw`, by the datatype of the tensor."""
    return TensorData.from_raw(raw, elem.datatype).flat()


def pack(elem: RequestInput | ResponseOutput) -> bytes:
    """The values of a tensor as raw bytes."""
    return bytes(elem.data.to_raw(elem.datatype))


def inject_raw(elems: list[Tensor], raw_contents: list[bytes]) -> list[Tensor]:
    """Give tensors without data theirs, in turn; returns the same tensors."""
    contents = iter(raw_contents)
    for elem in elems:
        if not len(elem.data):
            elem.data = TensorData.from_raw(next(contents), elem.datatype)
    return elems


def extract_raw(elems: list[Tensor]) -> tuple[list[Tensor], list[bytes]]:
    """Take the data of tensors out of them; returns the same tensors and their data as raw bytes."""
    raw_contents = [pack(elem) for elem in elems]
    for elem in elems:
        elem.data = TensorData([])
    return elems, raw_contents


__all__ = ["extract_raw", "inject_raw", "pack", "unpack"]
