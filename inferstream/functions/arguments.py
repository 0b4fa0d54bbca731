"""The arguments of a function, derived from its annotations, and their values in a request."""

import inspect
import typing
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from copy import copy
from functools import partial
from math import prod
from types import SimpleNamespace
from typing import Any

from pydantic.fields import FieldInfo

from ..codecs.values.arrays import Array
from ..codecs.values.base import (
    DESCRIPTION,
    NULLABLE,
    STREAM,
    Value,
    describe_fault,
    list_accepted_inputs,
    reason,
)
from ..codecs.values.constraints import find_description
from ..codecs.values.hints import format_hint, stream_item, value_for, without_none
from ..codecs.values.scalars import Boolean, Number, Text
from ..errors import CodecError, InvalidRequest
from ..signature import Tensors
from ..types import InferenceRequest, RequestInput
from ..types.forms import KINDS, InputsForm
from .docstring import parse_descriptions
from .errors import unwrap_partial
from .injection import Injection, Replacements, State

STREAMS = (AsyncIterator, AsyncIterable, Iterator)
REQUIRED = inspect.Parameter.empty

LARGE = 65_536
"""Arguments above this size, in bytes, are decoded in a thread if the function runs on an event loop."""

VALUE = 16
"""The assumed size of one value in a list, in bytes."""

Sizes = dict[str, tuple[int, str]]
"""The size of each named dimension in a call, and the argument that determined it."""


class Argument(typing.NamedTuple):
    """One argument that clients send."""

    name: str
    value: Value
    default: Any
    takes_none: bool
    hint: Any
    description: str | None = None

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def nullable(self) -> bool:
        """Whether null is distinct from an absent value."""
        return self.takes_none and not self.required and self.default is not None


class Arguments:
    """The arguments of one function, derived from its annotations.

    If `by_item` is set, lists contain batch items. Raises TypeError naming the parameter if it has a missing
    annotation or an unsupported type.
    """

    def __init__(
        self, function: Callable[..., Any], state: State | None = None, by_item: bool = False
    ) -> None:
        self._by_item = by_item
        self.injection = Injection(state)
        self.stream: Argument | None = None
        """The argument whose values arrive in several requests, or None."""
        self.stream_is_async = True
        self.arguments: list[Argument] = []
        hints = resolve_hints(function)
        self._described = parse_descriptions(getattr(unwrap_partial(function), "__doc__", None))
        for parameter in _parameters(function):
            try:
                self._add(parameter, hints.get(parameter.name))
            except TypeError as error:
                raise TypeError(f'parameter "{parameter.name}": {error}') from None
        every = [*self.arguments, *([] if self.stream is None else [self.stream])]
        self._values = {argument.name: argument for argument in every}
        self._required = {argument.name: None for argument in self.arguments if argument.required}
        self._implied = {
            argument.name: None
            for argument in self.arguments
            if argument.default is None and argument.takes_none
        }
        self._read_apart = {argument.name for argument in every if argument.value.reads_apart}
        self.names_sizes = any(
            isinstance(argument.value, Array) and argument.value.dimensions for argument in every
        )
        """Whether an argument is an array with named dimensions."""
        self._inject(self.injection)

    def _inject(self, injection: Injection) -> None:
        self.injection = injection
        self.given = self._read_and_inject if injection else self.read
        """Like `read`, with injected arguments. Dependencies must not be coroutines."""

    def replace(self, replacements: Replacements) -> "Arguments":
        """Return the same arguments with replaced dependencies. Raises TypeError."""
        other = copy(self)
        other._inject(self.injection.replace(replacements))
        return other

    def _read_and_inject(self, request: InferenceRequest) -> dict[str, Any]:
        return self.read(request) | self.injection.fill(request)

    @property
    def names(self) -> list[str]:
        return [*self._values]

    def tensors(self) -> Tensors:
        """Return the declared inputs."""
        return tuple(
            argument.value.tensor(
                argument.name,
                **({} if argument.required else argument.value.describe_optional(argument.default)),
                **({NULLABLE: True} if argument.nullable else {}),
                **({} if argument.description is None else {DESCRIPTION: argument.description}),
                **({STREAM: True} if argument is self.stream else {}),
            )
            for argument in self._values.values()
        )

    def form(self) -> InputsForm | None:
        """Return the form of requests whose values are used without conversion.

        Returns None if a value alone does not represent its tensor, as for arrays and streams.
        """
        values = [argument.value for argument in self.arguments]
        plain = all(type(value) in (Boolean, Number, Text) and value.datatype in KINDS for value in values)
        if self.stream is not None or not plain:
            return None
        optional = [argument.name for argument in self.arguments if not argument.required]
        return InputsForm({argument.name: argument.value.datatype for argument in self.arguments}, optional)

    def read(self, request: InferenceRequest) -> dict[str, Any]:
        """Return the arguments of a call, except injected ones.

        Raises InvalidRequest naming the argument.
        """
        given = {**self._implied, **request.by_name(self._value)}
        if not given.keys() >= self._required.keys():
            missing = next(name for name in self._required if name not in given)
            raise InvalidRequest(f'argument "{missing}" is missing; {self._list_names()}')
        if self.names_sizes:
            self.sizes(request)
        return given

    @property
    def may_take_long(self) -> bool:
        """Whether `takes_long` can be true for a request."""
        return bool(self._read_apart)

    def takes_long(self, request: InferenceRequest) -> bool:
        """Whether `read` would block an event loop noticeably, so that it should run in a thread."""
        return self.may_take_long and any(
            _weight(tensor) > LARGE for tensor in request.inputs if tensor.name in self._read_apart
        )

    def read_later(self, request: InferenceRequest, sizes: Sizes | None = None) -> Any:
        """Return the value that a later request adds to the stream.

        `sizes` are the sizes of named dimensions in earlier requests. Raises InvalidRequest.
        """
        assert self.stream is not None
        for tensor in request.inputs:
            if tensor.name != self.stream.name or len(request.inputs) > 1:
                raise InvalidRequest(f'later requests take only the argument "{self.stream.name}"')
            value = self._value(tensor)
            if self.names_sizes:
                self.sizes(request, sizes)
            return value
        raise InvalidRequest(f'argument "{self.stream.name}" is missing in a later request')

    def sizes(self, request: InferenceRequest, known: Sizes | None = None) -> Sizes:
        """Return the sizes of named dimensions, added to the `known` ones.

        Raises InvalidRequest if a name has two sizes.
        """
        named: Sizes = {} if known is None else known
        for tensor in request.inputs:
            value = self._values[tensor.name].value
            if not isinstance(value, Array) or _is_null(tensor):
                continue
            for name, size in value.sizes(tensor.shape).items():
                first, of = named.setdefault(name, (size, tensor.name))
                if first != size:
                    raise InvalidRequest(
                        f'argument "{tensor.name}": dimension "{name}" is {size}, and {first} in argument "{of}"'
                    )
        return named

    def _value(self, tensor: RequestInput) -> Any:
        argument = self._values.get(tensor.name)
        if argument is None:
            raise InvalidRequest(f'"{tensor.name}" is no argument of the model; {self._list_names()}')
        try:
            if argument.takes_none and _is_null(tensor):
                return None
            return argument.value.read(tensor)
        except (TypeError, ValueError, CodecError) as error:
            raise InvalidRequest(describe_fault(tensor.name, error)) from None

    def _list_names(self) -> str:
        return list_accepted_inputs((name, argument.required) for name, argument in self._values.items())

    def _add(self, parameter: inspect.Parameter, hint: Any) -> None:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"a model cannot take {parameter}; it takes arguments by name")
        if self.injection.add(parameter.name, hint, parameter.default):
            return
        if hint is None:
            raise TypeError("it has no annotation")
        said = find_description(hint) or self._described.get(parameter.name)
        origin = typing.get_origin(hint)
        if origin in STREAMS or hint in STREAMS:
            if self.stream is not None:
                raise TypeError("a model can read one stream only")
            item, _ = stream_item(hint)
            self.stream_is_async = origin in (AsyncIterator, AsyncIterable)
            self.stream = Argument(parameter.name, value_for(item), REQUIRED, False, item, said)
            return
        if isinstance(parameter.default, FieldInfo):
            raise TypeError(f"write Annotated[{format_hint(hint)}, Field(...)], and the default after it")
        bare, takes_none = without_none(hint)
        default = None if takes_none and parameter.default is REQUIRED else parameter.default
        value = value_for(bare, self._by_item)
        if not any(default is none for none in (REQUIRED, None, ...)):  # stubs replace some defaults with ...
            _check_default(value, default, hint)
        takes_none = takes_none or default is None or bare in (Any, object)
        self.arguments.append(Argument(parameter.name, value, default, takes_none, hint, said))


def _check_default(value: Value, default: Any, hint: Any) -> None:
    try:
        value.check(default)
    except (TypeError, ValueError, CodecError) as error:
        raise TypeError(f"its default does not fit {format_hint(hint)}: {reason(error)}") from None


def _weight(tensor: RequestInput) -> int:
    """Return the approximate size of a tensor, in bytes."""
    values = tensor.data.values
    if values is None and tensor.data.is_raw:
        return len(tensor.data.to_raw(tensor.datatype))
    count = len(values) if isinstance(values, list) else 1
    if count == 1 and isinstance(values, list) and isinstance(values[0], str | bytes):
        return len(values[0])
    return VALUE * max(count, prod(tensor.shape))


def _is_null(tensor: RequestInput) -> bool:
    """Whether the only value of a tensor is null. Does not convert large arrays to lists."""
    return prod(tensor.shape) == 1 and tensor.data.flat() == [None]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:  # some functions written in C
        raise TypeError(f"its parameters are not known: {error}") from None
    bound = function.keywords if isinstance(function, partial) else ()
    return [each for each in parameters if each.name not in bound]


def resolve_hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of a function. Raises TypeError for an undefined name."""
    function = unwrap_partial(function)
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError) as error:
        raise TypeError(_describe_unreadable(function, error)) from None
    except TypeError:
        # Annotations that are not types, such as TensorInput[...] with a dtype instance, are used unchanged.
        return dict(inspect.get_annotations(function))


def _describe_unreadable(function: Callable[..., Any], error: Exception) -> str:
    """Return the error message for an annotation that cannot be evaluated."""
    names = getattr(inspect.unwrap(function), "__globals__", {})
    for parameter, hint in inspect.get_annotations(function).items():
        try:
            typing.get_type_hints(SimpleNamespace(__annotations__={parameter: hint}), names)
        except TypeError:
            continue
        except Exception:
            which = "return value" if parameter == "return" else f'parameter "{parameter}"'
            return f"{which}: its annotation {hint!r} cannot be read: {error}"
    return f"an annotation cannot be read: {error}"
