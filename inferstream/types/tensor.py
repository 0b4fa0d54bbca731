"""Tensor values, stored in the format in which they arrived and converted at most once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from math import prod
from typing import Any, Protocol, Self, cast

import numpy as np
import numpy.typing as npt
import orjson
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from .conversion import (
    NESTING,
    TEXT,
    array_from_values,
    cast_exactly,
    cast_loosely,
    check_bytes,
    check_depth,
    flatten,
    join_bytes,
    plain_array,
    split_bytes,
)
from .datatypes import DTYPES, WIRE_SIZES, check_size, narrow_bf16, view_raw

_Schema = dict[str, Any]  # named here because a method called `dict` hides the type inside the class

SMALL = 4096
"""The maximum size, in bytes, of an array that is faster to copy than to view."""

_ONE_VALUE = (str, bytes, bytearray, memoryview, Mapping)
"""Iterable types that count as one value."""


class Unread(Protocol):
    """Raw bytes in external storage that have not been copied yet."""

    def __len__(self) -> int: ...

    def read_into(self, memory: memoryview) -> None:
        """Fill `memory`, which has the same length. Raises InferstreamError."""


class TensorData:
    """The values of a tensor in row-major order: Python lists (nested or flat), a NumPy array, or raw bytes.

    It behaves like a list: `data.root`, `data[0]`, `len(data)`, iteration. Raw bytes use the protocol's raw
    representation: little-endian values, or for BYTES a 4-byte little-endian length before each element.
    """

    __slots__ = ("_array", "_raw", "_raw_datatype", "_root", "binary", "checked")

    def __init__(
        self, root: Any, exact: "np.dtype[Any] | None" = None, checked: bool = True, binary: bool = False
    ) -> None:
        """`exact` is the dtype of a flat list whose values are already known to fit it."""
        self.checked = checked
        """Whether the server checks the values against the datatype and shape of the tensor.

        Unchecked values, for models written for MLServer, are not converted: they can be nested or flat, of
        any type and number.
        """
        self.binary = binary
        """Whether each BYTES element is base64 in JSON, even if it is valid UTF-8."""
        self._root = root
        self._array: npt.NDArray[Any] | None = None
        self._raw: memoryview | None = None
        self._raw_datatype = ""
        kind = type(root)
        if kind is list:
            if exact is not None:
                self._array = np.array(root, exact)
            return
        if kind is np.ndarray:
            self._root, self._array = None, root
        elif isinstance(root, np.ma.MaskedArray) and root.dtype.kind not in "fc":
            self._root = root.tolist()  # masked values become None, which the datatype check reports
        elif isinstance(root, np.ndarray):
            self._root, self._array = None, plain_array(root)
        elif isinstance(root, TensorData):
            self._root, self._array = root._root, root._array
            self._raw, self._raw_datatype = root._raw, root._raw_datatype
        elif isinstance(root, Iterable) and not isinstance(root, _ONE_VALUE):
            self._root = root.tolist() if hasattr(root, "tolist") else list(root)

    @classmethod
    def from_raw(cls, raw: memoryview | bytes, datatype: str, binary: bool = False) -> "TensorData":
        """Wrap values in the protocol's raw representation, without a copy."""
        data = cls.__new__(cls)
        data.checked, data.binary = True, binary
        data._root = data._array = None
        data._raw, data._raw_datatype = memoryview(raw), datatype
        return data

    @staticmethod
    def from_unread(
        unread: Unread, datatype: str, check: "Callable[[TensorData, Sequence[int]], object]"
    ) -> "TensorData":
        """Wrap values in the protocol's raw representation, which are read on first access.

        Until then, `TensorData.check` only compares the number of bytes. The values of BYTES and BOOL must be
        checked too, so `check(data, shape)` is called after they are read. It raises InvalidRequest.
        """
        return UnreadData(unread, datatype, check)

    @staticmethod
    def elsewhere() -> "TensorData":
        """Return a placeholder for values in external storage, to which the tensor parameters refer."""
        return DataElsewhere([])

    def __reduce__(self) -> tuple[Any, ...]:
        raw = None if self._raw is None else bytes(self._raw)  # views can be neither copied nor pickled
        return _restore, (self._root, self._array, raw, self._raw_datatype, self.binary, self.checked)

    @property
    def root(self) -> Any:
        """The values as Python objects: a flat list, or the nested lists that the client sent.

        The caller may modify the list, so reading this property discards converted copies of the values.
        """
        root = self.peek()
        self._array = self._raw = None
        return root

    @root.setter
    def root(self, values: Any) -> None:
        TensorData.__init__(self, values, None, self.checked, self.binary)

    __root__ = root

    def peek(self) -> Any:
        """Return the values as Python objects. The caller must not modify them."""
        if self._root is None:
            if self._array is not None:
                self._root = _to_list(self._array)
            elif self._raw is not None:
                if self._raw_datatype == "BYTES":
                    self._root = split_bytes(self._raw)
                else:
                    self._root = _to_list(view_raw(self._raw, self._raw_datatype))
        return self._root

    def split_raw(self, most: int) -> int:
        """Split raw BYTES and return the number of elements.

        Raises ValueError for more than `most` elements.
        """
        if self._root is None and self._raw is not None:
            self._root = split_bytes(self._raw, most)
        return len(self._root) if type(self._root) is list else 1

    @property
    def array(self) -> npt.NDArray[Any] | None:
        """The array that holds the values, or None."""
        return self._array

    @property
    def values(self) -> Any:
        """The values as Python objects if the tensor already holds them, else None."""
        return self._root

    @property
    def is_raw(self) -> bool:
        """Whether the tensor holds the values in the protocol's raw representation."""
        return self._raw is not None

    def flat(self) -> list[Any]:
        """Return the values as a flat list of Python objects. A single value becomes one element."""
        return flatten(self.peek())

    def to_numpy(self, datatype: str, shape: Sequence[int] | None = None) -> npt.NDArray[Any]:
        """Return the values as an array of the dtype of `datatype` (not BYTES), reshaped to `shape`.

        The array may share memory with the request, in which case it may be read-only. Unchecked values are
        converted as NumPy does. Raises ValueError or OverflowError if a value does not fit the datatype.
        """
        array, dtype = self._array, DTYPES[datatype]
        if array is None:
            if self._raw is not None:
                array = view_raw(self._raw, self._raw_datatype)
            else:
                array = (array_from_values if self.checked else cast_loosely)(self._root, datatype)
            self._array = array
        if array.dtype is not dtype and array.dtype != dtype:
            array = self._array = (cast_exactly if self.checked else cast_loosely)(array, datatype)
        if shape is None:
            return array
        try:
            return array.reshape(shape)
        except ValueError:
            sizes = list(shape)
            raise ValueError(
                f"{array.size} values do not fit shape {sizes}, which takes {prod(sizes)}"
            ) from None

    def to_raw(self, datatype: str) -> bytes | memoryview:
        """Return the values in the protocol's raw representation."""
        if self._raw is not None and self._raw_datatype == datatype:
            return self._raw
        if datatype == "BYTES":
            return join_bytes(self.flat())
        array = self.to_numpy(datatype)
        if datatype == "BF16":
            return narrow_bf16(array)
        if array.nbytes <= SMALL:
            return array.tobytes()
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        return array.reshape(-1).view(np.uint8).data if array.size else b""

    def source(self, datatype: str) -> bytes | memoryview | Unread:
        """Return a buffer or `Unread` from which the raw representation can be copied."""
        return self.to_raw(datatype)

    @classmethod
    def join(cls, parts: "Sequence[TensorData]", datatype: str) -> "TensorData":
        """Concatenate the values of all parts. Numbers are not converted to Python objects."""
        if datatype == "BYTES":
            return cls(list(chain.from_iterable(part.flat() for part in parts)))
        raws = [part._raw for part in parts]
        if None not in raws:
            return cls.from_raw(memoryview(bytearray().join(cast(list[memoryview], raws))), datatype)
        return cls(np.concatenate([part.to_numpy(datatype).reshape(-1) for part in parts]))

    def split(self, datatype: str, counts: Sequence[int]) -> "list[TensorData]":
        """Split the values into parts of `counts` elements. Parts of arrays and raw bytes are views."""
        parts: list[Any]
        binary = self.binary
        if not self.checked and self._root is not None and self._raw is None:
            parts = self._split_rows(counts)
            return [TensorData(part, checked=False, binary=binary) for part in parts]
        ends = list(accumulate(counts))
        bounds = list(zip([0, *ends], ends, strict=False))
        if self._raw is not None and datatype != "BYTES":
            raw, size = self._raw, WIRE_SIZES[datatype]
            parts = [raw[start * size : end * size] for start, end in bounds]
            return [TensorData.from_raw(part, datatype) for part in parts]
        values = self.flat() if datatype == "BYTES" else self.to_numpy(datatype).reshape(-1)
        parts = [values[start:end] for start, end in bounds]
        return [TensorData(part, checked=self.checked, binary=binary) for part in parts]

    def _split_rows(self, counts: Sequence[int]) -> list[Any]:
        """Return parts of `counts` elements. Nested lists are split between rows if the counts allow it."""
        values, elements = self._root, sum(counts)
        nested = type(values) is list and values and type(values[0]) is list and not elements % len(values)
        width = elements // len(values) if nested else 0
        if width and not any(count % width for count in counts):
            counts = [count // width for count in counts]
        else:
            values = self.flat()
        return [values[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]

    def is_sound(self, datatype: str, shape: Sequence[int]) -> bool:
        """Whether unchecked values would pass the check."""
        exact = TensorData(self)
        try:
            exact.check(datatype, shape)
        except (ValueError, TypeError):
            return False
        self._array = exact.array
        return True

    def _check_harmless(self, datatype: str) -> None:
        """Raise ValueError for raw bytes that are not whole elements, or for values nested too deeply."""
        raw = self._raw
        if raw is None:
            values = self._root
            if type(values) is not list or not NESTING.isdisjoint(map(type, values)):
                check_depth(values)
        elif datatype == "BYTES":
            self._root = split_bytes(raw)
        else:
            check_size(raw.nbytes, datatype)
            if datatype == "BOOL" and raw.nbytes and max(raw) > 1:
                raise ValueError("BOOL needs bytes that are 0 or 1")

    def check(self, datatype: str, shape: Sequence[int]) -> None:
        """Raise ValueError unless the number of values fits `shape` and each value fits `datatype`.

        Unchecked values are only rejected if they could harm the server.
        """
        if not self.checked:
            self._check_harmless(datatype)
            return
        if datatype == "BYTES":
            values = self._root
            if values is None and self._raw is not None:
                values = self._root = split_bytes(self._raw)
            if type(values) is list and len(values) == 1 and type(values[0]) in TEXT:
                count = 1  # the usual case of a token
            elif values is not None or self._array is None:
                count = check_bytes(values)
            elif self._array.dtype.kind in "SU":
                count = self._array.size
            else:
                count = check_bytes(self.peek())
        elif self._raw is not None:
            check_size(self._raw.nbytes, datatype, shape)
            if datatype == "BOOL" and self._raw.nbytes and max(self._raw) > 1:
                raise ValueError("BOOL needs bytes that are 0 or 1")
            return
        else:
            count = self.to_numpy(datatype).size
        if count != (expected := prod(shape)):
            raise ValueError(f"shape {list(shape)} needs {expected} values, got {count}")

    def __iter__(self) -> Iterator[Any]:
        return iter(self.peek())

    def __getitem__(self, index: Any) -> Any:
        return self.peek()[index]

    def __len__(self) -> int:
        return len(self.peek())

    def __eq__(self, other: object) -> bool:
        return bool(self.peek() == (other.peek() if isinstance(other, TensorData) else other))

    __hash__ = None  # type: ignore[assignment]  # mutable, like a list

    def __repr__(self) -> str:
        return f"TensorData(root={self.peek()!r})"

    def model_dump(self, **_: Any) -> Any:
        return self.peek()

    dict = model_dump

    def model_dump_json(self, **_: Any) -> str:
        return orjson.dumps(self.peek(), option=orjson.OPT_SERIALIZE_NUMPY, default=bytes.decode).decode()

    json = model_dump_json

    @classmethod
    def model_validate(cls, obj: Any, **_: Any) -> Self:
        """Return `TensorData(obj)`. The name is from pydantic."""
        return obj if isinstance(obj, cls) else cls(obj)

    parse_obj = model_validate

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **_: Any) -> Self:
        """Parse the values from JSON. Raises ValueError for invalid JSON."""
        return cls(orjson.loads(json_data))

    parse_raw = model_validate_json

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else cls(value),
            serialization=core_schema.plain_serializer_function_ser_schema(cls.peek),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> _Schema:
        return {"type": "array", "items": {}, "description": "Values in row-major order, flat or nested."}


class UnreadData(TensorData):
    """Values that are read on first access. See `TensorData.from_unread`."""

    __slots__ = ("_check_read", "_read", "_unchecked_shape", "_unread")

    def __init__(
        self, unread: Unread, datatype: str, check_read: Callable[[TensorData, Sequence[int]], object]
    ) -> None:
        self.checked, self.binary = True, False
        self._root = self._array = None
        self._raw_datatype = datatype
        self._unread: Unread | None = unread
        self._read: memoryview | None = None
        self._check_read = check_read
        self._unchecked_shape: Sequence[int] | None = None
        """The shape to check the values against after they are read, or None."""

    @property
    def _raw(self) -> memoryview | None:
        if self._unread is not None:
            size = len(self._unread)
            memory = np.empty(size, np.uint8).data  # uninitialised: a bytearray would be zeroed first
            self._unread.read_into(memory)
            self._raw = memory
            if self._unchecked_shape is not None:
                self._check_read(self, self._unchecked_shape)
        return self._read

    @_raw.setter
    def _raw(self, raw: memoryview | None) -> None:
        self._read, self._unread = raw, None

    @property
    def is_raw(self) -> bool:
        return self._unread is not None or self._read is not None

    def source(self, datatype: str) -> bytes | memoryview | Unread:
        if self._unread is None or self._unchecked_shape is not None or datatype != self._raw_datatype:
            return self.to_raw(datatype)
        return self._unread

    def check(self, datatype: str, shape: Sequence[int]) -> None:
        if self._unread is None:
            super().check(datatype, shape)
        elif datatype in ("BYTES", "BOOL"):
            self._unchecked_shape = shape
        else:
            check_size(len(self._unread), datatype, shape if self.checked else None)


class DataElsewhere(TensorData):
    """Values in external storage. See `TensorData.elsewhere`."""

    __slots__ = ()


def _restore(
    root: Any,
    array: "npt.NDArray[Any] | None",
    raw: bytes | None,
    datatype: str,
    binary: bool,
    checked: bool,
) -> TensorData:
    data = TensorData(root, None, checked, binary)
    data._array = array
    data._raw = None if raw is None else memoryview(raw)
    data._raw_datatype = datatype
    return data


def _to_list(array: npt.NDArray[Any]) -> list[Any]:
    values: list[Any] = array.reshape(-1).tolist()
    if array.dtype.kind == "f" and np.isnan(array).any():
        # JSON has no NaN. Both directions of the wire use `None` for a missing number.
        return [None if value != value else value for value in values]
    return values
