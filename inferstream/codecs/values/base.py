"""The base class of values, and the parameters of metadata that describe them."""

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
"""Parameter of a declared input that a request may omit."""
DEFAULT = "default"
"""Parameter of an optional input: the value of an absent one, as JSON."""
DESCRIPTION = "description"
"""Parameter of a declared tensor, for people."""
SCHEMA = "schema"
"""Parameter of a declared tensor of JSON: the JSON schema of its value, as JSON."""
CHOICES = "choices"
"""Parameter of a declared tensor: the allowed values, as a JSON list."""
DIMENSIONS = "dimensions"
"""Parameter of a declared array: its dimensions as a JSON list of sizes, names and nulls."""
FORMAT = "format"
"""Parameter of a declared time: `date` or `time`, for one that is no date with a time."""
DESCRIBED = "described"
"""Parameter of a tensor that a runtime describes in metadata. Nothing declares it, and nothing enforces it."""
STREAM = "stream"
"""Parameter of an input whose later values arrive in later requests of the same call."""


def fact(tensor: MetadataTensor | RequestInput | ResponseOutput, parameter: str) -> Any:
    """A parameter of a tensor; None without it."""
    return None if tensor.parameters is None else tensor.parameters.get(parameter)


def taken(inputs: Iterable[tuple[str, bool]]) -> str:
    """The inputs of a model, as the end of a refusal: each with whether a request must have it."""
    names = ", ".join(name if required else f"{name} (optional)" for name, required in inputs)
    return f"it takes {names}" if names else "it takes no arguments"


class Value(ABC):
    """Converts between values of one Python type and tensors.

    `write` and `read` raise TypeError or ValueError with a message that names no tensor. The methods that have a
    tensor's name raise CodecError.
    """

    datatype: str
    reads_apart: bool = False
    """Whether `read` may take long and releases the interpreter's lock meanwhile, so that a thread helps."""

    content: str | None = None
    """Content type of the tensor in metadata."""

    @property
    def shape(self) -> list[int]:
        """The shape in metadata; [1] for a single value, -1 for any size."""
        return [1]

    @abstractmethod
    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        """The value of a tensor whose data fit its datatype and shape."""

    @abstractmethod
    def write(self, value: Any) -> tuple[list[int], Any]:
        """Shape and data of a value."""

    @abstractmethod
    def from_json(self, value: Any) -> Any:
        """A Python value of its JSON value."""

    @abstractmethod
    def to_json(self, value: Any) -> Any:
        """The JSON value of a Python value, for the JSON writer."""

    def from_flat(self, value: Any) -> tuple[list[int], Any]:
        """Shape and data of a JSON value that was not converted yet."""
        return self.write(self.from_json(value))

    def check(self, value: Any) -> None:
        """Raise TypeError or ValueError unless a Python value is one of this type."""
        self.write(value)

    def null(self, name: str) -> RequestInput:
        """The input of an argument that is None."""
        return RequestInput.of(name, [1], self.datatype, TensorData([None]))

    def facts(self) -> dict[str, Any]:
        """Parameters of the declared tensor beside its content type."""
        return {}

    def tensor(self, name: str, **parameters: Any) -> MetadataTensor:
        """The declared tensor of values of this type."""
        known = {} if self.content is None else {"content_type": self.content}
        facts = {**known, **self.facts(), **parameters}
        fields: dict[str, Any] = {"name": name, "datatype": self.datatype, "shape": self.shape}
        if facts:
            fields["parameters"] = Parameters(**facts)
        return MetadataTensor(**fields)

    def optional(self, default: Any) -> dict[str, Any]:
        """The parameters of an input that a request may omit; without `default` if JSON cannot hold it."""
        try:
            shown = orjson.dumps(None if default is None else self.to_json(default)).decode()
        except (TypeError, ValueError):
            return {OPTIONAL: True}
        return {OPTIONAL: True, DEFAULT: shown}

    def can_encode(self, payload: Any) -> bool:
        """Whether `write` takes this value."""
        try:
            self.write(payload)
        except (TypeError, ValueError):
            return False
        return True

    def decode_input(self, tensor: RequestInput | ResponseOutput) -> Any:
        """The value of a tensor. Raises CodecError."""
        try:
            return self.read(tensor)
        except (TypeError, ValueError, CodecError) as error:
            raise CodecError(f'{tensor.what} "{tensor.name}": {reason(error)}') from None

    decode_output = decode_input

    def encode_input(self, name: str, value: Any) -> RequestInput:
        """The input of a value. Raises CodecError."""
        return self._encoded(RequestInput, name, value)

    def encode_output(self, name: str, value: Any) -> ResponseOutput:
        """The output of a value. Raises CodecError."""
        return self._encoded(ResponseOutput, name, value)

    def input_from_flat(self, name: str, value: Any) -> RequestInput:
        """The input of a JSON value. Raises TypeError and ValueError."""
        return self._tensor(RequestInput, name, *self.from_flat(value))

    def encode(self, kind: type[AnyTensor], name: str, value: Any) -> AnyTensor:
        """The tensor of a value. Raises the errors of `write`."""
        return self._tensor(kind, name, *self.write(value))

    def _encoded(self, kind: type[AnyTensor], name: str, value: Any) -> AnyTensor:
        try:
            return self.encode(kind, name, value)
        except (TypeError, ValueError, CodecError) as error:
            raise CodecError(f'{kind.what} "{name}": {reason(error)}', kind is ResponseOutput) from None

    def _tensor(self, kind: type[AnyTensor], name: str, shape: list[int], data: Any) -> AnyTensor:
        content = self.content
        parameters = None if content is None or content in UNWRITTEN else content_type(content)
        return kind.of(name, shape, self.datatype, TensorData(data, binary=content == "base64"), parameters)


class SingleValue(Value):
    """A value that is one element of a tensor. Lists of it are tensors of one dimension."""

    def reader(self, tensor: RequestInput | ResponseOutput) -> Callable[[Any], Any]:
        """What makes values of the elements of this tensor. Raises ValueError for another datatype."""
        self._expect(tensor)
        return self.from_element

    def _expect(self, tensor: RequestInput | ResponseOutput) -> None:
        if tensor.datatype != self.datatype:
            raise ValueError(f"takes {self.datatype}, got {tensor.datatype}")

    def from_element(self, element: Any, /) -> Any:
        """The value in an element. Raises TypeError and ValueError."""
        return self.from_json(element)

    @abstractmethod
    def element(self, value: Any) -> Any:
        """The element that holds a value."""

    def from_json(self, value: Any) -> Any:
        return self.element(value)

    def to_json(self, value: Any) -> Any:
        return self.element(value)

    def read(self, tensor: RequestInput | ResponseOutput) -> Any:
        return self.reader(tensor)(single(tensor))

    def write(self, value: Any) -> tuple[list[int], Any]:
        return [1], [self.element(value)]

    def read_all(self, tensor: RequestInput | ResponseOutput) -> list[Any]:
        """The values of all elements."""
        return each(self.reader(tensor), tensor.data.flat())

    def elements(self, values: Sequence[Any]) -> Any:
        """The elements that hold these values."""
        plain = self.plain(values)
        return each(self.element, values) if plain is None else plain

    def plain(self, values: Sequence[Any]) -> list[Any] | None:
        """The elements of Python and JSON values, if one look at all of them shows that each is right; else None.

        Embeddings have thousands of numbers, and a look at each number costs 0.6 to 9 µs.
        """
        return None


def each(convert: Callable[[Any], Any], elements: Sequence[Any]) -> list[Any]:
    """Convert each element. Errors name its index."""
    values = []
    for index, element in enumerate(elements):
        try:
            values.append(convert(element))
        except (TypeError, ValueError) as error:
            raise ValueError(f"element {index} {reason(error)}") from None
    return values


UNWRITTEN = ("str", "base64")
"""Content types that metadata name and tensors do not: their data is text or bytes, as the wire says."""


def reason(error: Exception) -> str:
    """The message of an error of `read` and `write`."""
    return error.message if isinstance(error, CodecError) else str(error)


def fault_of(argument: str, error: Exception) -> str:
    """What is wrong with an argument: `argument "a" takes an integer, got 'x'`, `argument "a": not valid JSON`."""
    said = reason(error)
    return f'argument "{argument}"{" " if said.startswith(VERBS) else ": "}{said}'


VERBS = ("takes ", "must ", "has ", "needs ")

JSON_NAMES = {None: "null", True: "true", False: "false"}


def brief(value: Any) -> str:
    """A value in an error message."""
    text = JSON_NAMES[value] if value is None or isinstance(value, bool) else _shown(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _shown(value: Any, level: int = 0) -> str:
    """The beginning of `repr`. A client may send millions of values, or nest them deeper than Python can follow."""
    if type(value) in (str, bytes):
        return repr(value[:41])
    if type(value) is list:
        inside = [_shown(item, level + 1) for item in value[:14]] if level < 4 else ["..."] * bool(value)
        return f"[{', '.join(inside)}]"
    if type(value) is dict:
        pairs = islice(value.items(), 7) if level < 4 else ()
        inside = [f"{_shown(key)}: {_shown(item, level + 1)}" for key, item in pairs]
        return f"{{{', '.join(inside)}}}"
    return repr_without_address(value)


def single(tensor: RequestInput | ResponseOutput) -> Any:
    """The only element of a tensor. Raises ValueError unless there is exactly one."""
    if tensor.datatype != "BYTES" and tensor.shape != [1] and (count := prod(tensor.shape)) != 1:
        raise ValueError(f"takes one value, got {count}")  # before an array becomes a list
    values = tensor.data.values
    if type(values) is list and len(values) == 1 and type(values[0]) is not list:
        return values[0]
    values = tensor.data.flat()
    if len(values) != 1:
        raise ValueError(f"takes one value, got {len(values)}")
    return values[0]
