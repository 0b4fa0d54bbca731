"""The base class of values, and the metadata parameters that describe them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import prod
from typing import Any

import orjson

from ...errors import CodecError
from ...types import MetadataTensor, Parameters, RequestInput, ResponseOutput, TensorData
from ...types.conversion import repr_without_address
from ...types.metadata import NULLABLE as NULLABLE
from ...types.tensors import AnyTensor
from ..base import content_type

OPTIONAL = "optional"
"""Tensor parameter of an input that a request may omit."""
DEFAULT = "default"
"""Tensor parameter of an optional input: its default value, as JSON."""
DESCRIPTION = "description"
"""Tensor parameter: a human-readable description."""
SCHEMA = "schema"
"""Tensor parameter of a JSON tensor: the JSON schema of its value, as JSON."""
CHOICES = "choices"
"""Tensor parameter: the allowed values, as a JSON list."""
EXAMPLES = "examples"
"""Tensor parameter: known or typical values of a column, or rows of a matrix, as a JSON list. Others are allowed."""
DIMENSIONS = "dimensions"
"""Tensor parameter of an array: its dimensions as a JSON list of sizes, names and nulls."""
FORMAT = "format"
"""Tensor parameter of a time that is not a full datetime: `date` or `time`."""
DESCRIBED = "described"
"""Tensor parameter of a tensor that a runtime describes. It is neither declared nor enforced."""
STREAM = "stream"
"""Tensor parameter of an input whose values arrive in several requests of the same call."""


def fact(tensor: MetadataTensor | RequestInput | ResponseOutput, parameter: str) -> Any:
    """Return a parameter of a tensor, or None."""
    return None if tensor.parameters is None else tensor.parameters.get(parameter)


def list_accepted_inputs(inputs: Iterable[tuple[str, bool]]) -> str:
    """Return the end of an error message that lists the inputs of a model.

    `inputs` are pairs of a name and whether it is required.
    """
    names = ", ".join(name if required else f"{name} (optional)" for name, required in inputs)
    return f"it takes {names}" if names else "it takes no arguments"


class Value(ABC):
    """Converts between values of one Python type and tensors.

    `write` and `read` raise TypeError or ValueError with a message that does not name the tensor.
    `encode_input`, `encode_output`, `decode_input` and `decode_output` raise CodecError, which names it.
    """

    datatype: str
    reads_apart: bool = False
    """Whether `read` can take long and releases the GIL, so that running it in a thread helps."""

    content: str | None = None
    """The content type of the tensor in metadata."""

    @property
    def shape(self) -> list[int]:
        """The shape in metadata: [1] for a single value, -1 for any size."""
        return [1]

    @abstractmethod
    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        """Decode a tensor whose data fits its datatype and shape."""

    @abstractmethod
    def write(self, value: Any) -> tuple[list[int], Any]:
        """Return the shape and data for a value."""

    @abstractmethod
    def from_json(self, value: Any) -> Any:
        """Convert a JSON value to a Python value."""

    @abstractmethod
    def to_json(self, value: Any) -> Any:
        """Convert a Python value to a value for the JSON encoder."""

    def from_flat(self, value: Any) -> tuple[list[int], Any]:
        """Return the shape and data for a JSON value."""
        return self.write(self.from_json(value))

    def check(self, value: Any) -> None:
        """Raise TypeError or ValueError unless a Python value has this type."""
        self.write(value)

    def null(self, name: str) -> RequestInput:
        """Return the input for an argument that is None."""
        return RequestInput.of(name, [1], self.datatype, TensorData([None]))

    def facts(self) -> dict[str, Any]:
        """Return the parameters of the declared tensor except its content type."""
        return {}

    def tensor(self, name: str, **parameters: Any) -> MetadataTensor:
        """Return the declared tensor for values of this type."""
        known = {} if self.content is None else {"content_type": self.content}
        facts = {**known, **self.facts(), **parameters}
        fields: dict[str, Any] = {"name": name, "datatype": self.datatype, "shape": self.shape}
        if facts:
            fields["parameters"] = Parameters(**facts)
        return MetadataTensor(**fields)

    def describe_optional(self, default: Any) -> dict[str, Any]:
        """Return the parameters of an optional input, without `default` if JSON cannot represent it."""
        try:
            shown = orjson.dumps(None if default is None else self.to_json(default)).decode()
        except (TypeError, ValueError):
            return {OPTIONAL: True}
        return {OPTIONAL: True, DEFAULT: shown}

    def can_encode(self, payload: Any) -> bool:
        """Whether `write` accepts this value."""
        try:
            self.write(payload)
        except (TypeError, ValueError):
            return False
        return True

    def decode_input(self, tensor: RequestInput | ResponseOutput) -> Any:
        """Decode a tensor. Raises CodecError."""
        try:
            return self.read(tensor)
        except (TypeError, ValueError, CodecError) as error:
            raise CodecError(f'{tensor.what} "{tensor.name}": {reason(error)}') from None

    decode_output = decode_input

    def encode_input(self, name: str, value: Any) -> RequestInput:
        """Encode a value as an input. Raises CodecError."""
        return self._encode_or_fail(RequestInput, name, value)

    def encode_output(self, name: str, value: Any) -> ResponseOutput:
        """Encode a value as an output. Raises CodecError."""
        return self._encode_or_fail(ResponseOutput, name, value)

    def input_from_flat(self, name: str, value: Any) -> RequestInput:
        """Encode a JSON value as an input. Raises TypeError or ValueError."""
        return self._tensor(RequestInput, name, *self.from_flat(value))

    def encode(self, kind: type[AnyTensor], name: str, value: Any) -> AnyTensor:
        """Encode a value as a tensor. Raises the same errors as `write`."""
        return self._tensor(kind, name, *self.write(value))

    def _encode_or_fail(self, kind: type[AnyTensor], name: str, value: Any) -> AnyTensor:
        try:
            return self.encode(kind, name, value)
        except (TypeError, ValueError, CodecError) as error:
            raise CodecError(f'{kind.what} "{name}": {reason(error)}', kind is ResponseOutput) from None

    def _tensor(self, kind: type[AnyTensor], name: str, shape: list[int], data: Any) -> AnyTensor:
        content = self.content
        parameters = None if content is None or content in UNWRITTEN else content_type(content)
        return kind.of(name, shape, self.datatype, TensorData(data, binary=content == "base64"), parameters)


class SingleValue(Value):
    """A value that is one element of a tensor. A list of such values is a one-dimensional tensor."""

    def reader(self, tensor: RequestInput | ResponseOutput) -> Callable[[Any], Any]:
        """Return a function that converts elements of a tensor. Raises ValueError for a wrong datatype."""
        self._expect(tensor)
        return self.from_element

    def _expect(self, tensor: RequestInput | ResponseOutput) -> None:
        if tensor.datatype != self.datatype:
            raise ValueError(f"takes {self.datatype}, got {tensor.datatype}")

    def from_element(self, element: Any, /) -> Any:
        """Convert an element to a value. Raises TypeError or ValueError."""
        return self.from_json(element)

    @abstractmethod
    def element(self, value: Any) -> Any:
        """Convert a value to an element."""

    def from_json(self, value: Any) -> Any:
        return self.element(value)

    def to_json(self, value: Any) -> Any:
        return self.element(value)

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        return self.reader(tensor)(get_single(tensor))

    def write(self, value: Any) -> tuple[list[int], Any]:
        return [1], [self.element(value)]

    def read_all(self, tensor: RequestInput | ResponseOutput) -> list[Any]:
        """Convert all elements to values."""
        return convert_each(self.reader(tensor), tensor.data.flat())

    def elements(self, values: Sequence[Any]) -> Any:
        """Convert values to elements."""
        plain = self.convert_at_once(values)
        return convert_each(self.element, values) if plain is None else plain

    def convert_at_once(self, values: Sequence[Any]) -> list[Any] | None:
        """Return the elements for Python or JSON values if they can be checked all at once, else None.

        This matters for embeddings with thousands of numbers, because checking them one by one takes 0.6 to 9
        µs each.
        """
        return None


def convert_each(convert: Callable[[Any], Any], elements: Sequence[Any]) -> list[Any]:
    """Convert each element. Raises ValueError naming the index of an invalid one."""
    values = []
    for index, element in enumerate(elements):
        try:
            values.append(convert(element))
        except (TypeError, ValueError) as error:
            raise ValueError(f"element {index} {reason(error)}") from None
    return values


UNWRITTEN = ("str", "base64")
"""Content types that appear only in metadata, because the wire already distinguishes strings and bytes."""


def reason(error: Exception) -> str:
    """Return the message of an error from `read` or `write`."""
    return error.message if isinstance(error, CodecError) else str(error)


def describe_fault(argument: str, error: Exception) -> str:
    """Return the error message for an argument.

    For example, `argument "a" takes an integer, got 'x'`, or `argument "a": not valid JSON`.
    """
    said = reason(error)
    return f'argument "{argument}"{" " if said.startswith(VERBS) else ": "}{said}'


VERBS = ("takes ", "must ", "has ", "needs ")

JSON_NAMES = {None: "null", True: "true", False: "false"}


def format_brief(value: Any) -> str:
    """Return a short representation of a value for an error message."""
    text = JSON_NAMES[value] if value is None or isinstance(value, bool) else _shorten_repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _shorten_repr(value: Any, level: int = 0) -> str:
    """Return the beginning of the `repr`.

    The value may have millions of items, or be nested too deeply for recursion.
    """
    if type(value) in (str, bytes):
        return repr(value[:41])
    if type(value) is list:
        inside = (
            [_shorten_repr(item, level + 1) for item in value[:14]] if level < 4 else ["..."] * bool(value)
        )
        return f"[{', '.join(inside)}]"
    if type(value) is dict:
        pairs = islice(value.items(), 7) if level < 4 else ()
        inside = [f"{_shorten_repr(key)}: {_shorten_repr(item, level + 1)}" for key, item in pairs]
        return f"{{{', '.join(inside)}}}"
    return repr_without_address(value)


def get_single(tensor: RequestInput | ResponseOutput) -> Any:
    """Return the only element of a tensor. Raises ValueError unless there is exactly one."""
    if tensor.datatype != "BYTES" and tensor.shape != [1] and (count := prod(tensor.shape)) != 1:
        raise ValueError(f"takes one value, got {count}")  # checked before an array is converted to a list
    values = tensor.data.values
    if type(values) is list and len(values) == 1 and type(values[0]) is not list:
        return values[0]
    values = tensor.data.flat()
    if len(values) != 1:
        raise ValueError(f"takes one value, got {len(values)}")
    return values[0]
