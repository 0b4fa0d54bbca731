"""Parses large ModelInferRequests without copying raw tensors, and reads typed numbers straight into arrays.

protobuf copies a raw tensor into its message, and again whenever it is read. For a tensor of 16 MB, parsing
in place saves two copies and the page faults of new memory. protobuf creates a Python object for each typed
number, which takes 40 ms and 50 MB per million numbers. A message is a sequence of fields. Each field is a
key (number and wire type), a length and a value (protobuf's "Encoding"), and all fields of this message are
length-delimited.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from ..errors import InvalidRequest
from .dataplane_pb2 import InferParameter, ModelInferRequest
from .packed import DTYPES, read_packed_field

LARGE = 64 * 1024
"""The size, in bytes, from which this parser is faster than protobuf."""

MANY = 1024
"""The maximum number of fields of a large message."""

RAW = 7 << 3 | 2
"""The key of `raw_input_contents`."""

TENSORS = 16 * MANY
"""The maximum number of fields in the inputs and outputs of a large message, including their parameters."""

INPUT, CONTENTS = 5 << 3 | 2, 5 << 3 | 2
"""Keys of `inputs`, and of `contents` in each input."""

OUTPUT = 6 << 3 | 2
"""The key of `outputs`."""

ELEMENT = b"\x42"
"""The key of one element of `bytes_contents`. A length of at least one byte follows."""


class InferRequests:
    """Parses ModelInferRequests with at most `most` BYTES elements.

    Has the interface of the message class.
    """

    def __init__(self, most: int) -> None:
        self.DESCRIPTOR = ModelInferRequest.DESCRIPTOR
        self._most = most

    def FromString(self, data: bytes) -> "InferMessage":  # noqa: N802  # protobuf's name
        """Parse a message. Raises DecodeError, or InvalidRequest for too many fields or elements."""
        if len(data) < LARGE:
            return ModelInferRequest.FromString(data)
        parts = _split(data)
        rest = data if parts is None else parts[0]
        if len(rest) >= LARGE:
            _expect_few(rest, self._most)
        return ModelInferRequest.FromString(data) if parts is None else LargeRequest(*parts)


class Packed(NamedTuple):
    """The numbers of an input with large typed contents."""

    number: int
    """The field number in InferTensorContents."""
    array: npt.NDArray[Any]
    size: int
    """The size of the field, in bytes."""


class LargeRequest:
    """A ModelInferRequest with views of the received raw contents, and large typed contents as arrays.

    `packed` maps the index of an input, whose `contents` are empty, to its array.
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
        """Return the size of the message without its raw contents, in bytes."""
        return self._message.ByteSize() + sum(numbers.size for numbers in self.packed.values())

    def __getattr__(self, name: str) -> object:
        return getattr(self._message, name)


InferMessage = ModelInferRequest | LargeRequest


def message_size(message: InferMessage) -> int:
    """Return the serialized size of a message, in bytes. It is approximate for a LargeRequest."""
    size = message.ByteSize()
    return size + sum(map(len, message.raw_input_contents)) if isinstance(message, LargeRequest) else size


def _split(data: bytes) -> tuple[bytes, list[memoryview], dict[int, tuple[bytes, Packed]]] | None:
    """Split off the raw contents and the large typed contents of a message.

    Returns the rest of the message, the raw contents, and the inputs with large typed contents by index.
    Returns None if only protobuf can parse the message. Raises InvalidRequest if the message has more fields
    than the allowed inputs, outputs and parameters need, because protobuf would create an object for each.
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
        if (parts := _split_packed_contents(value)) is not None:
            packed[index] = parts
            rest[at] = value[:0]
    return (b"".join(rest), raws, packed) if is_plain else None


def _split_packed_contents(tensor: memoryview) -> tuple[bytes, Packed] | None:
    """Return an input without its typed contents, and the contents.

    Returns None unless the contents are a single packed field.
    """
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
    array = read_packed_field(number, value)
    return None if array is None else (b"".join(rest), Packed(number, array, len(value)))


def _values(messages: Sequence[memoryview], *keys: int, most: int = MANY) -> list[memoryview]:
    """Return the values of the fields with these keys. Raises InvalidRequest for more than `most` fields."""
    values: list[memoryview] = []
    for count, (each, _, value) in enumerate(field for message in messages for field in walk(message)):
        if count == most:
            raise InvalidRequest(f"The message, its inputs and its outputs have more than {most} fields.")
        if each in keys and value is not None:
            values.append(value)
    return values


def _expect_few(data: bytes, most: int) -> None:
    """Raise InvalidRequest for too many fields or BYTES elements, before protobuf creates their objects."""
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
"""Sizes of the fixed-size wire types, in bytes."""


GROUPS = (3, 4)
"""The wire types of group delimiters. protobuf skips groups, but their contents would not be counted."""


def walk(view: memoryview) -> Iterator[tuple[int, memoryview, memoryview | None]]:
    """Yield the key, encoding and value of each field. For malformed bytes, the last value is None.

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
    """Return the number at `position` and its end, which is beyond `data` if the varint is incomplete."""
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
