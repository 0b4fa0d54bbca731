"""The arguments of a function: which inputs a request must have, and their values."""

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
from ..codecs.values.base import DESCRIPTION, NULLABLE, STREAM, Value, fault_of, reason, taken
from ..codecs.values.constraints import description_of
from ..codecs.values.hints import item_of, shown, value_of, without_none
from ..codecs.values.scalars import Boolean, Number, Text
from ..errors import CodecError, InvalidRequest
from ..signature import Tensors
from ..types import InferenceRequest, RequestInput
from ..types.forms import KINDS, InputsForm
from .docstring import descriptions
from .errors import unbound
from .injection import Injection, Replacements, State

STREAMS = (AsyncIterator, AsyncIterable, Iterator)
REQUIRED = inspect.Parameter.empty

LARGE = 65_536
"""Bytes of an argument that are read in a thread, where the function itself runs on an event loop."""

VALUE = 16
"""Bytes that one value of a list counts."""

Sizes = dict[str, tuple[int, str]]
"""The size of each named dimension of a call, and the argument that has it."""


class Argument(typing.NamedTuple):
    """One argument that clients give."""

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
        """Whether null differs from an absent value."""
        return self.takes_none and not self.required and self.default is not None


class Arguments:
    """The arguments of one function, read from its annotations. If `by_item`, lists hold the items of a batch.

    Raises TypeError, which names the parameter, for one without an annotation or of a type that cannot be sent.
    """

    def __init__(
        self, function: Callable[..., Any], state: State | None = None, by_item: bool = False
    ) -> None:
        self._by_item = by_item
        self.injection = Injection(state)
        self.stream: Argument | None = None
        """The argument that gets the values of later requests."""
        self.stream_is_async = True
        self.arguments: list[Argument] = []
        hints = hints_of(function)
        self._described = descriptions(getattr(unbound(function), "__doc__", None))
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
        self.given = self._with_injected if injection else self.read
        """All arguments of a call. No dependency may be a coroutine. Raises as `read`."""

    def replaced(self, replacements: Replacements) -> "Arguments":
        """The same arguments, of other dependencies. Raises TypeError."""
        other = copy(self)
        other._inject(self.injection.replaced(replacements))
        return other

    def _with_injected(self, request: InferenceRequest) -> dict[str, Any]:
        return self.read(request) | self.injection.fill(request)

    @property
    def names(self) -> list[str]:
        return [*self._values]

    def tensors(self) -> Tensors:
        """The declared inputs."""
        return tuple(
            argument.value.tensor(
                argument.name,
                **({} if argument.required else argument.value.optional(argument.default)),
                **({NULLABLE: True} if argument.nullable else {}),
                **({} if argument.description is None else {DESCRIPTION: argument.description}),
                **({STREAM: True} if argument is self.stream else {}),
            )
            for argument in self._values.values()
        )

    def form(self) -> InputsForm | None:
        """The form of requests whose values need no conversion; None if a tensor says more than its value."""
        values = [argument.value for argument in self.arguments]
        plain = all(type(value) in (Boolean, Number, Text) and value.datatype in KINDS for value in values)
        if self.stream is not None or not plain:
            return None
        optional = [argument.name for argument in self.arguments if not argument.required]
        return InputsForm({argument.name: argument.value.datatype for argument in self.arguments}, optional)

    def read(self, request: InferenceRequest) -> dict[str, Any]:
        """The arguments of a call, except injected ones. Raises InvalidRequest, which names the argument."""
        given = {**self._implied, **request.by_name(self._value)}
        if not given.keys() >= self._required.keys():
            missing = next(name for name in self._required if name not in given)
            raise InvalidRequest(f'argument "{missing}" is missing; {self._known()}')
        if self.names_sizes:
            self.sizes(request)
        return given

    @property
    def may_take_long(self) -> bool:
        """Whether there is a request that `takes_long`."""
        return bool(self._read_apart)

    def takes_long(self, request: InferenceRequest) -> bool:
        """Whether `read` would hold an event loop noticeably, and would not if a thread did it."""
        return self.may_take_long and any(
            _weight(tensor) > LARGE for tensor in request.inputs if tensor.name in self._read_apart
        )

    def later(self, request: InferenceRequest, sizes: Sizes | None = None) -> Any:
        """The value that a later request adds to the stream. `sizes` are those of the requests before it.

        Raises InvalidRequest.
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
        """The sizes of named dimensions, added to those that are `known`.

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
            raise InvalidRequest(f'"{tensor.name}" is no argument of the model; {self._known()}')
        try:
            if argument.takes_none and _is_null(tensor):
                return None
            return argument.value.read(tensor)
        except (TypeError, ValueError, CodecError) as error:
            raise InvalidRequest(fault_of(tensor.name, error)) from None

    def _known(self) -> str:
        return taken((name, argument.required) for name, argument in self._values.items())

    def _add(self, parameter: inspect.Parameter, hint: Any) -> None:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"a model cannot take {parameter}; it takes arguments by name")
        if self.injection.add(parameter.name, hint, parameter.default):
            return
        if hint is None:
            raise TypeError("it has no annotation")
        said = description_of(hint) or self._described.get(parameter.name)
        origin = typing.get_origin(hint)
        if origin in STREAMS or hint in STREAMS:
            if self.stream is not None:
                raise TypeError("a model can read one stream only")
            item, _ = item_of(hint)
            self.stream_is_async = origin in (AsyncIterator, AsyncIterable)
            self.stream = Argument(parameter.name, value_of(item), REQUIRED, False, item, said)
            return
        if isinstance(parameter.default, FieldInfo):
            raise TypeError(f"write Annotated[{shown(hint)}, Field(...)], and the default after it")
        bare, takes_none = without_none(hint)
        default = None if takes_none and parameter.default is REQUIRED else parameter.default
        value = value_of(bare, self._by_item)
        if not any(default is none for none in (REQUIRED, None, ...)):  # a stub has ... for unwritable ones
            _check_default(value, default, hint)
        takes_none = takes_none or default is None or bare in (Any, object)
        self.arguments.append(Argument(parameter.name, value, default, takes_none, hint, said))


def _check_default(value: Value, default: Any, hint: Any) -> None:
    try:
        value.check(default)
    except (TypeError, ValueError, CodecError) as error:
        raise TypeError(f"its default does not fit {shown(hint)}: {reason(error)}") from None


def _weight(tensor: RequestInput) -> int:
    """Roughly the bytes of a tensor."""
    values = tensor.data.values
    if values is None and tensor.data.is_raw:
        return len(tensor.data.to_raw(tensor.datatype))
    count = len(values) if isinstance(values, list) else 1
    if count == 1 and isinstance(values, list) and isinstance(values[0], str | bytes):
        return len(values[0])
    return VALUE * max(count, prod(tensor.shape))


def _is_null(tensor: RequestInput) -> bool:
    """Whether a tensor holds null and nothing else. An array of many values does not become a list for this."""
    return prod(tensor.shape) == 1 and tensor.data.flat() == [None]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError as error:  # some functions that are written in C
        raise TypeError(f"its parameters are not known: {error}") from None
    bound = function.keywords if isinstance(function, partial) else ()
    return [each for each in parameters if each.name not in bound]


def hints_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The annotations of a function. Raises TypeError if one names something that does not exist."""
    function = unbound(function)
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError) as error:
        raise TypeError(_unknown(function, error)) from None
    except TypeError:
        # Annotations that are no types, such as TensorInput[...] with a dtype instance; taken as they are.
        return dict(inspect.get_annotations(function))


def _unknown(function: Callable[..., Any], error: Exception) -> str:
    """Which annotation of a function cannot be evaluated."""
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
