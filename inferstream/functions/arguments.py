"""The arguments of a function: which inputs a request must have, and their values."""

import inspect
import typing
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from ..codecs.values.arrays import Array
from ..codecs.values.base import DEFAULT, OPTIONAL, STREAM, Value, reason
from ..codecs.values.hints import value_of, without_none
from ..errors import CodecError, InvalidRequest
from ..signature import Tensors
from ..types import InferenceRequest, RequestInput
from .injection import Injection, State

STREAMS = (AsyncIterator, AsyncIterable, Iterator, Iterable)
REQUIRED = inspect.Parameter.empty


class Argument(typing.NamedTuple):
    """One argument that clients give."""

    name: str
    value: Value
    default: Any
    takes_none: bool
    hint: Any

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


class Arguments:
    """The arguments of one function, read from its annotations.

    Raises TypeError, which names the parameter, for one without an annotation or of a type that cannot be sent.
    """

    def __init__(self, function: Callable[..., Any], state: State | None = None) -> None:
        self.injection = Injection(state)
        self.stream: Argument | None = None
        """The argument that gets the values of later requests."""
        self.stream_is_async = True
        self.arguments: list[Argument] = []
        hints = hints_of(function)
        for parameter in inspect.signature(function).parameters.values():
            try:
                self._add(parameter, hints.get(parameter.name))
            except TypeError as error:
                raise TypeError(f'parameter "{parameter.name}": {error}') from None
        every = [*self.arguments, *([] if self.stream is None else [self.stream])]
        self._values = {argument.name: argument for argument in every}
        self._required = [argument.name for argument in self.arguments if argument.required]
        self._implied = {
            argument.name: None
            for argument in self.arguments
            if argument.default is None and argument.takes_none
        }
        self._named = any(
            isinstance(argument.value, Array) and argument.value.dimensions for argument in every
        )

    @property
    def names(self) -> list[str]:
        return [*self._values]

    def tensors(self) -> Tensors:
        """The declared inputs."""
        return tuple(
            argument.value.tensor(
                argument.name,
                **_optional(argument),
                **({STREAM: True} if argument is self.stream else {}),
            )
            for argument in self._values.values()
        )

    def read(self, request: InferenceRequest) -> dict[str, Any]:
        """The arguments of a call, except injected ones. Raises InvalidRequest, which names the argument."""
        found: dict[str, Any] = {**self._implied}
        values = self._values
        for tensor in request.inputs:
            argument = values.get(tensor.name)
            if argument is None:
                raise InvalidRequest(f'"{tensor.name}" is no argument of the model; {self._known()}')
            found[tensor.name] = self._value(argument, tensor)
        for name in self._required:
            if name not in found:
                raise InvalidRequest(f'argument "{name}" is missing; {self._known()}')
        if self._named:
            self.check_sizes(request)
        return found

    def later(self, request: InferenceRequest) -> Any:
        """The value that a later request adds to the stream. Raises InvalidRequest."""
        assert self.stream is not None
        for tensor in request.inputs:
            if tensor.name != self.stream.name or len(request.inputs) > 1:
                raise InvalidRequest(f'later requests take only the argument "{self.stream.name}"')
            return self._value(self.stream, tensor)
        raise InvalidRequest(f'argument "{self.stream.name}" is missing in a later request')

    def check_sizes(self, request: InferenceRequest) -> dict[str, int]:
        """The sizes of named dimensions. Raises InvalidRequest if a name has two sizes."""
        sizes: dict[str, tuple[int, str]] = {}
        for tensor in request.inputs:
            value = self._values[tensor.name].value
            if not isinstance(value, Array):
                continue
            for name, size in value.sizes(tensor.shape).items():
                known, of = sizes.setdefault(name, (size, tensor.name))
                if known != size:
                    raise InvalidRequest(
                        f'argument "{tensor.name}": dimension "{name}" is {size}, and {known} in argument "{of}"'
                    )
        return {name: size for name, (size, _) in sizes.items()}

    def _value(self, argument: Argument, tensor: RequestInput) -> Any:
        try:
            if argument.takes_none and tensor.data.flat() == [None]:
                return None
            return argument.value.read(tensor)
        except (TypeError, ValueError, CodecError) as error:
            raise InvalidRequest(f'argument "{tensor.name}" {reason(error)}') from None

    def _known(self) -> str:
        names = ", ".join(
            name if argument.required or argument is self.stream else f"{name} (optional)"
            for name, argument in self._values.items()
        )
        return f"it takes {names}" if names else "it takes no arguments"

    def _add(self, parameter: inspect.Parameter, hint: Any) -> None:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"a model cannot take {parameter}; it takes arguments by name")
        if self.injection.add(parameter.name, hint, parameter.default):
            return
        if hint is None:
            raise TypeError("it has no annotation")
        origin = typing.get_origin(hint)
        if origin in STREAMS:
            if self.stream is not None:
                raise TypeError("a model can read one stream only")
            (item,) = typing.get_args(hint)
            self.stream_is_async = origin in (AsyncIterator, AsyncIterable)
            self.stream = Argument(parameter.name, value_of(item), REQUIRED, False, item)
            return
        bare, takes_none = without_none(hint)
        default = None if takes_none and parameter.default is REQUIRED else parameter.default
        self.arguments.append(Argument(parameter.name, value_of(bare), default, takes_none, hint))


def _optional(argument: Argument) -> dict[str, Any]:
    """The parameters of metadata that say how an argument may be left out."""
    if argument.required:
        return {}
    try:
        default = argument.default
        shown = orjson.dumps(None if default is None else argument.value.to_json(default)).decode()
    except (TypeError, ValueError):
        return {OPTIONAL: True}
    return {OPTIONAL: True, DEFAULT: shown}


def hints_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of a function. Raises TypeError if one names something that does not exist."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"an annotation names something unknown: {error}") from None
    except TypeError:
        # Annotations that are no types, such as TensorInput[...] with a dtype instance; taken as they are.
        return dict(inspect.get_annotations(function))
