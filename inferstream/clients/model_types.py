"""The types of a model, which convert arguments to requests and responses to values."""

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..codecs.undeclared_tensors import decode, encode
from ..codecs.values.arrays import Array
from ..codecs.values.base import (
    DEFAULT,
    DESCRIBED,
    DIMENSIONS,
    NULLABLE,
    OPTIONAL,
    STREAM,
    Value,
    describe_fault,
)
from ..codecs.values.declared import value_of_tensor
from ..errors import CallFailed, CodecError
from ..types import (
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)
from .tables import OfColumns, Table, encode_missing

if TYPE_CHECKING:
    from ..functions.function import ModelFunction
    from ..functions.results import Results

RAW = ("np", "base64", "image")
"""Content types of tensors that are more compact as raw bytes than as JSON."""

WHOLE = (str, bytes, bytearray, memoryview, Mapping, np.ndarray)
"""Iterable types that are a single value, not a stream."""


class InputType(NamedTuple):
    """The type of one argument.

    If `without` is set, the model treats an absent argument as None, so None is not sent. If `nullable` is
    set, None is sent as null, which only JSON can express.
    """

    value: Value
    required: bool = True
    without: bool = False
    stream: bool = False
    nullable: bool = False


@dataclass(slots=True)
class PreparedCall:
    """A request built from checked arguments. `more` yields the later requests of the call."""

    request: InferenceRequest
    more: AsyncIterator[InferenceRequest] | None = None
    raw: bool = False
    """Whether a tensor of the request or response is more compact as raw bytes than as JSON."""
    null: str | None = None
    """The name of an argument that is null, which only JSON can express."""


class Later:
    """The values of an argument that is a stream. `begun` is true once the first value is requested."""

    def __init__(self, values: AsyncIterable[Any] | Iterable[Any]) -> None:
        self.begun = False
        self._async = aiter(values) if isinstance(values, AsyncIterable) else None
        self._sync = iter(values) if isinstance(values, Iterable) else iter(())

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        self.begun = True
        if self._async is not None:
            return await anext(self._async)
        for value in self._sync:
            return value
        raise StopAsyncIteration


class ModelTypes:
    """The types of one model.

    `inputs` and `outputs` are None if they are unknown. `results` are the results of a function, whose
    annotations are more precise than its outputs. Two instances are equal if they were built from equal
    metadata.

    Errors in arguments are raised as TypeError or ValueError. The message names the argument.
    """

    def __init__(
        self,
        model: str,
        inputs: Mapping[str, InputType] | None,
        outputs: Mapping[str, Value] | None,
        results: "Results | None" = None,
        metadata: MetadataModelResponse | None = None,
        described: Sequence[MetadataTensor] = (),
    ) -> None:
        """`described` are inputs that the server describes but does not enforce.

        They only affect data frames and columns with missing values.
        """
        self.model = model
        self._described = described
        self._metadata = metadata
        self._inputs = inputs
        self._outputs = outputs
        self._results = results
        self._raw = any(value.content in RAW for value in (outputs or {}).values())

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ModelTypes) and self._metadata is not None and self._metadata == other._metadata
        )

    __hash__ = None  # type: ignore[assignment]  # never used as a key

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Check the arguments, and return them with each stream as a `Later`. Raises TypeError."""
        if isinstance(arguments, Table):
            arguments = self._split_table(arguments)
            if isinstance(arguments, OfColumns):
                return arguments
        inputs = self._inputs
        if inputs is None:
            columns = {tensor.name: tensor for tensor in self._described if tensor.shape == [-1]}
            arguments = {
                name: encode_missing(columns[name], value) if name in columns else value
                for name, value in arguments.items()
            }
            return {name: Later(value) if _is_stream(value) else value for name, value in arguments.items()}
        for name in arguments:
            if name not in inputs:
                raise TypeError(f'model "{self.model}": "{name}" is no argument; {_list_inputs(inputs)}')
        for name, known in inputs.items():
            if known.required and name not in arguments:
                raise TypeError(f'model "{self.model}": argument "{name}" is missing; {_list_inputs(inputs)}')
        return {name: self._to_stream(name, value, inputs[name]) for name, value in arguments.items()}

    def bind_arguments(self, values: Sequence[Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments by name.

        `values` are the leading ones, in the model's order. Raises TypeError.
        """
        names = [*(self._inputs or ())][: len(values)]
        if len(names) < len(values):
            takes = "arguments by name" if self._inputs is None else f"{len(self._inputs)} arguments"
            raise TypeError(
                f'model "{self.model}" takes {takes}, and {len(values)} were given without a name'
            )
        if twice := [name for name in names if name in arguments]:
            raise TypeError(f'model "{self.model}": argument "{twice[0]}" is given twice')
        return {**dict(zip(names, values, strict=True)), **arguments}

    async def prepare(
        self, arguments: Mapping[str, Any], parameters: Mapping[str, Any], outputs: Sequence[str] = ()
    ) -> PreparedCall:
        """Build the request for checked arguments. `outputs` are the requested outputs."""
        if isinstance(arguments, OfColumns):
            parameters = {"content_type": "pd", **parameters}
        given = Parameters(**parameters) if parameters else None
        wanted = [RequestOutput.of(name) for name in outputs] or None
        prepared = PreparedCall(InferenceRequest.of([], None, given, wanted), raw=self._raw)
        for name, value in arguments.items():
            if isinstance(value, Later):
                if prepared.more is not None:
                    raise TypeError(
                        f'model "{self.model}": argument "{name}" is a second stream; it takes one'
                    )
                prepared.more = self._requests(name, value)
                if not (self._inputs is not None and self._inputs[name].stream):
                    value = await self._first(name, value)
                else:
                    continue
            if value is None and self._inputs is not None and self._inputs[name].nullable:
                prepared.null = name
            tensor = self._tensor(name, value)
            if tensor is not None:
                prepared.request.inputs.append(tensor)
        kinds = [] if self._inputs is None else [self._inputs[name].value.content for name in arguments]
        prepared.raw = prepared.null is None and (
            self._raw
            or any(kind in RAW for kind in kinds)
            or any(tensor.data.array is not None for tensor in prepared.request.inputs)
        )
        return prepared

    def _split_table(self, table: Table) -> Mapping[str, Any]:
        """Return the columns of a data frame by name, or the whole table if the only input accepts tables.

        Raises TypeError.
        """
        inputs = self._inputs
        try:
            if inputs is None:
                (described, *more) = self._described or (None,)
                if described is not None and not more and len(described.shape) == 2:
                    return {described.name: table.frame.to_numpy()}
                return table.tensors(self._described) if self._described else OfColumns(table.tensors())
        except CodecError as error:
            raise TypeError(f'model "{self.model}": {error.message}') from None
        (name, known), *others = inputs.items() or (("", None),)
        if others or known is None or name in table:
            return dict(table)
        return {name: table.frame if known.value.content == "pd_json" else table.frame.to_numpy()}

    def decode_response(self, response: InferenceResponse) -> Any:
        """Return the value of a response: its only output, or all outputs by name. Raises CallFailed."""
        try:
            values = {output.name: self._decode(output) for output in response.outputs}
        except (TypeError, ValueError, CodecError) as error:
            raise CallFailed(f"The server's answer does not fit the model's outputs: {error}") from None
        if not values:
            return None
        results = self._results
        if results is not None and results.several:
            return results.join(values)
        declared = 1 if self._outputs is None else len(self._outputs)
        return values.popitem()[1] if len(values) == declared == 1 else values

    def _decode(self, output: ResponseOutput) -> Any:
        known = None if self._outputs is None else self._outputs.get(output.name)
        return decode(output) if known is None else known.decode_output(output)

    def _to_stream(self, name: str, value: Any, known: InputType) -> Any:
        if known.stream and (isinstance(value, WHOLE) or not isinstance(value, Iterable | AsyncIterable)):
            raise TypeError(f'model "{self.model}": argument "{name}" takes a stream: an iterator of values')
        return Later(value) if known.stream or _is_stream(value) else value

    async def _first(self, name: str, values: Later) -> Any:
        async for value in values:
            return value
        raise ValueError(f'model "{self.model}": argument "{name}" is a stream without values')

    async def _requests(self, name: str, values: Later) -> AsyncIterator[InferenceRequest]:
        async for value in values:
            tensor = self._tensor(name, value)
            yield InferenceRequest.of([] if tensor is None else [tensor])

    def _tensor(self, name: str, value: Any) -> RequestInput | None:
        try:
            if self._inputs is None:
                return encode(name, value)
            known = self._inputs[name]
            if value is None and known.without:
                return None
            if value is None and known.nullable:
                return known.value.null(name)
            if isinstance(value, RequestInput):
                return value
            return known.value.encode(RequestInput, name, value)
        except (TypeError, ValueError, CodecError) as error:
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f'model "{self.model}": {describe_fault(name, error)}') from None


def read_types(metadata: MetadataModelResponse) -> ModelTypes:
    """Return the types in a model's metadata.

    Array sizes are only checked if the model names its dimensions.
    """
    inputs = {
        tensor.name: _input_type(tensor) for tensor in metadata.inputs or () if not _has_description(tensor)
    }
    outputs = {
        tensor.name: _value(tensor) for tensor in metadata.outputs or () if not _has_description(tensor)
    }
    described = [tensor for tensor in metadata.inputs or () if _has_description(tensor)]
    return ModelTypes(metadata.name, inputs or None, outputs or None, metadata=metadata, described=described)


def _has_description(tensor: MetadataTensor) -> bool:
    return tensor.parameters is not None and tensor.parameters.get(DESCRIBED) is True


def derive_types(function: "ModelFunction") -> ModelTypes:
    """Return the types in a function's annotations."""
    arguments = function.arguments
    inputs = {
        argument.name: InputType(
            argument.value,
            argument.required,
            argument.takes_none and argument.default is None,
            nullable=argument.nullable,
        )
        for argument in arguments.arguments
    }
    if (stream := arguments.stream) is not None:
        inputs[stream.name] = InputType(stream.value, stream=True)
    results = function.results
    return ModelTypes(function.name, inputs, None if results.free else results.values, results)


def _input_type(tensor: MetadataTensor) -> InputType:
    parameters = {} if tensor.parameters is None else dict(tensor.parameters.items())
    absent = parameters.get(DEFAULT) == "null"
    optional = parameters.get(OPTIONAL) is True
    nullable = parameters.get(NULLABLE) is True
    return InputType(_value(tensor), not optional, absent, parameters.get(STREAM) is True, nullable)


def _value(tensor: MetadataTensor) -> Value:
    value = value_of_tensor(tensor)
    named = tensor.parameters is not None and tensor.parameters.get(DIMENSIONS) is not None
    # The server accepts some shapes that differ from the declared shape.
    return Array(value.datatype) if isinstance(value, Array) and not named else value


def _is_stream(value: Any) -> bool:
    """Whether a value is an iterator to be sent as a stream."""
    return isinstance(value, AsyncIterator | Iterator) and not isinstance(value, WHOLE)


def _list_inputs(inputs: Mapping[str, InputType]) -> str:
    names = ", ".join(name if known.required else f"{name} (optional)" for name, known in inputs.items())
    return f"it takes {names}" if names else "it takes no arguments"
