"""Reads large ModelInferRequests without a copy of their raw tensors, and their typed numbers as arrays.

protobuf copies a raw tensor into its message, and again for each reader. Reading a tensor of 16 MB in place saves
two copies, and the kernel does not fill as many new pages with zeros. A message is a sequence of fields. Each field
is a key (number and wire type), a length and a value (protobuf's "Encoding"); all fields of this message have that
form. protobuf makes a Python object of each typed number, which takes 40 ms and 50 MB for a million of them.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from ..errors import InvalidRequest
from .dataplane_pb2 import InferParameter, ModelInferRequest
from .packed import DTYPES, read_packed

LARGE = 64 * 1024
"""Smallest size in bytes for which this is faster."""

MANY = 1024
"""Most fields of a large message."""

RAW = 7 << 3 | 2
"""Key of `raw_input_contents`."""

TENSORS = 16 * MANY
"""Most fields of the inputs and outputs of a large message, which include their parameters."""

INPUT, CONTENTS = 5 << 3 | 2, 5 << 3 | 2
"""Keys of `inputs`, and of `contents` in each of them."""

OUTPUT = 6 << 3 | 2
"""Key of `outputs`."""

ELEMENT = b"\x42"
"""Key of one element of `bytes_contents`, which has a length of at least one byte."""


class InferRequests:
    """Reads ModelInferRequests with at most `most` elements of BYTES, with the interface of their class."""

    def __init__(self, most: int) -> None:
        self.DESCRIPTOR = ModelInferRequest.DESCRIPTOR
        self._most = most

    def FromString(self, data: bytes) -> "InferMessage":  # noqa: N802  # protobuf's name
        """The message in `data`. Raises DecodeError, and InvalidRequest for too many elements."""
        if len(data) < LARGE:
            return ModelInferRequest.FromString(data)
        parts = _split(data)
        rest = data if parts is None else parts[0]
        if len(rest) >= LARGE:
            _expect_few(rest, self._most)
        return ModelInferRequest.FromString(data) if parts is None else LargeRequest(*parts)


class Packed(NamedTuple):
    """The numbers of an input whose typed contents are large."""

    number: int
    """Of their field in InferTensorContents."""
    array: npt.NDArray[Any]
    size: int
    """In bytes, of the field."""


class LargeRequest:
    """A ModelInferRequest whose raw contents are views of the received bytes, and whose large typed ones are arrays.

    `packed` has the latter by the index of their input, which has no contents.
    """

    __slots__ = ("_message", "inputs", "packed", "raw_input_contents")

    model_name: str
    model_version: str
    id: str
    parameters: MutableMapping[str, InferParameter]
    outputs: Sequence[ModelInferRequest.InferRequestedOutputTensor]

    def __init__(
        self, rest: bytes, raws: list[memoryview], packed: "dict[int, tuple[bytes, Packed]]"
    ) -> None:
        self._message = ModelInferRequest.FromString(rest)
        self.raw_input_contents = raws
        self.inputs: Sequence[ModelInferRequest.InferInputTensor] = self._message.inputs
        self.packed = {index: numbers for index, (_, numbers) in packed.items()}
        if packed:
            self.inputs = inputs = list(self.inputs)
            for index, (tensor, _) in packed.items():
                inputs.insert(index, ModelInferRequest.InferInputTensor.FromString(tensor))

    def ByteSize(self) -> int:  # noqa: N802  # protobuf's name
        """Bytes of the message without its raw contents."""
        return self._message.ByteSize() + sum(numbers.size for numbers in self.packed.values())

    def __getattr__(self, name: str) -> object:
        return getattr(self._message, name)


InferMessage = ModelInferRequest | LargeRequest


def size_of(message: InferMessage) -> int:
    """Bytes of a message, as protobuf writes it."""
    size = message.ByteSize()
    return size + sum(map(len, message.raw_input_contents)) if isinstance(message, LargeRequest) else size


def _split(data: bytes) -> tuple[bytes, list[memoryview], dict[int, tuple[bytes, Packed]]] | None:
    """The message without what is large, its raw contents, and the inputs with large typed contents by index.

    None for bytes that only protobuf can judge.

    Raises InvalidRequest for more fields than a message with the allowed inputs, outputs and parameters has: protobuf
    would make objects of all of them.
    """
    rest: list[memoryview] = []
    raws: list[memoryview] = []
    inputs = 0
    typed: dict[int, tuple[int, memoryview]] = {}
    is_plain = True
    for count, (key, field, value) in enumerate(walk(memoryview(data))):
        if count == MANY:
            raise InvalidRequest(f"The message has more than {MANY} fields.")
        if value is None:
            return None
        is_plain = is_plain and key & 7 == 2
        if key == RAW:
            raws.append(value)
            continue
        if key == INPUT:
            if len(value) >= LARGE:
                typed[len(rest)] = inputs, value
            inputs += 1
        rest.append(field)
    packed: dict[int, tuple[bytes, Packed]] = {}
    for at, (index, value) in typed.items() if is_plain and not raws else ():
        if (parts := _take_packed(value)) is not None:
            packed[index] = parts
            rest[at] = value[:0]
    return (b"".join(rest), raws, packed) if is_plain else None


def _take_packed(tensor: memoryview) -> tuple[bytes, Packed] | None:
    """An input without its typed contents, and these; None unless they are one packed field."""
    rest: list[memoryview] = []
    contents: list[memoryview] = []
    for count, (key, field, value) in enumerate(walk(tensor)):
        if value is None or count == MANY:
            return None
        if key == CONTENTS:
            contents.append(value)
        else:
            rest.append(field)
    if len(contents) != 1 or not contents[0]:
        return None
    key, field, value = next(walk(contents[0]))
    number = key >> 3
    if value is None or key & 7 != 2 or number not in DTYPES or len(field) != len(contents[0]):
        return None
    array = read_packed(number, value)
    return None if array is None else (b"".join(rest), Packed(number, array, len(value)))


def _values(messages: Sequence[memoryview], *keys: int, most: int = MANY) -> list[memoryview]:
    """The values of the fields with one of the keys. Raises InvalidRequest for messages of more than `most` fields."""
    values: list[memoryview] = []
    for count, (each, _, value) in enumerate(field for message in messages for field in walk(message)):
        if count == most:
            raise InvalidRequest(f"The message, its inputs and its outputs have more than {most} fields.")
        if each in keys and value is not None:
            values.append(value)
    return values


def _expect_few(data: bytes, most: int) -> None:
    """Raise InvalidRequest for a message of too many fields, before protobuf makes an object of each."""
    tensors = _values([memoryview(data)], INPUT, OUTPUT)
    contents = _values(tensors, CONTENTS, most=TENSORS)
    if data.count(ELEMENT) <= most:
        return
    count = 0
    for view in contents:
        position, end = 0, len(view)
        while position < end - 1:
            if view[position] & 7 == 2 and (size := view[position + 1]) < 128:
                position += 2 + size
            else:
                position += len(next(walk(view[position:]))[1])
            count += 1
            if count > most:
                raise InvalidRequest(
                    f"The inputs have more than {most} elements of BYTES (setting max_json_values)."
                )


FIXED = {1: 8, 5: 4}
"""Sizes of the wire types of fixed size."""


GROUPS = (3, 4)
"""Wire types that begin and end a group. protobuf skips one, and would read what follows without a count."""


def walk(view: memoryview) -> Iterator[tuple[int, memoryview, memoryview | None]]:
    """Key, whole bytes and value of each field. The value is None, and the last, where the bytes are no message.

    Raises InvalidRequest for a group.
    """
    position, end = 0, len(view)
    while position < end:
        key, begin = varint(view, position)
        kind = key & 7
        if kind in GROUPS:
            raise InvalidRequest("The message has a group, which no field of it is.")
        if kind == 0:
            _, after = varint(view, begin)
        elif kind == 2:
            size, begin = varint(view, begin)
            after = begin + size
        else:
            after = begin + FIXED.get(kind, end)
        if after > end or not key >> 3:
            yield key, view[position:], None
            return
        yield key, view[position:after], view[begin:after]
        position = after


def varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at `position`, seven bits per byte, and its end; an end beyond `data` if it is incomplete."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    return value, len(data) + 1
