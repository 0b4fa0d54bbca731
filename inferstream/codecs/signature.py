"""`decode_args`: codecs picked from the annotations of a model's own method."""

import inspect
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from functools import wraps
from typing import Any, Union

from ..errors import CodecError, CodecNotFound, InputsNotFound, InvalidOutput, OutputNotFound
from ..types import InferenceRequest, InferenceResponse, MetadataTensor, RequestInput, ResponseOutput
from .base import OUTPUT_PREFIX, InputCodecLike, RequestCodecLike, response_of
from .registry import find_input_codec, find_request_codec

_ASYNC_STREAMS = (AsyncIterator, AsyncGenerator, AsyncIterable)
_STREAMS = (Iterator, Generator, Iterable)


class SignatureCodec:
    """Decodes a request into the arguments of a method, and encodes what it returns.

    Raises CodecNotFound when an annotation has no codec, which is at import of the model.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = typing.get_type_hints(function)
        returned = hints.pop("return", None)
        parameters = _parameters(function, hints)
        self._inputs: dict[str, InputCodecLike] = {}
        self._requests: dict[str, RequestCodecLike] = {}
        self._defaults: dict[str, Any] = {}
        self._hints = {parameter.name: _name(hints.get(parameter.name)) for parameter in parameters}
        for parameter in parameters:
            self._add_parameter(parameter, hints.get(parameter.name))
        self._outputs = [_Output(hint, index) for index, hint in enumerate(_output_hints(returned))]

    def _add_parameter(self, parameter: inspect.Parameter, hint: Any) -> None:
        bare, optional = _without_none(hint)
        name = parameter.name
        if parameter.default is not inspect.Parameter.empty:
            self._defaults[name] = parameter.default
        elif optional:
            self._defaults[name] = None
        if (codec := find_input_codec(type_hint=bare)) is not None:
            self._inputs[name] = codec
        elif (request_codec := find_request_codec(type_hint=bare)) is not None:
            self._requests[name] = request_codec
        else:
            raise CodecNotFound(name=name, payload_type=_name(hint), is_input=True)

    def decode_request(self, request: InferenceRequest) -> dict[str, Any]:
        """The arguments by name. Raises InputsNotFound for those the request lacks."""
        arguments = dict(self._defaults)
        rest = []
        for tensor in request.inputs:
            codec = self._inputs.get(tensor.name)
            if codec is None:
                rest.append(tensor)
            else:
                arguments[tensor.name] = codec.decode_input(tensor)
        if rest:
            name, request_codec = self._request_argument(rest)
            others = InferenceRequest.trusted({"inputs": rest, "parameters": request.parameters})
            arguments[name] = request_codec.decode_request(others)
        missing = {name: hint for name, hint in self._hints.items() if name not in arguments}
        if missing:
            raise InputsNotFound((), missing)
        return arguments

    def _request_argument(self, unclaimed: list[RequestInput]) -> tuple[str, RequestCodecLike]:
        """The argument that takes all inputs no other argument names."""
        for name, codec in self._requests.items():
            return name, codec
        raise InputsNotFound(unclaimed, self._hints)

    def encode_response(
        self,
        payload: Any,
        model_name: str,
        model_version: str | None,
        declared: Sequence[MetadataTensor] = (),
    ) -> InferenceResponse:
        """A response of what the method returned: `output-0`, `output-1`, …, or a frame's columns.

        The names are those of the `declared` outputs where these are as many. Raises OutputNotFound, CodecError.
        """
        if isinstance(payload, InferenceResponse):
            return payload
        values = payload if isinstance(payload, tuple) else () if payload is None else (payload,)
        named = len(declared) == len(self._outputs)
        outputs: list[ResponseOutput] = []
        for index, value in enumerate(values):
            if index >= len(self._outputs) or not self._outputs[index].fits(value):
                hints = [_name(output.hint) for output in self._outputs]
                raise OutputNotFound(index, type(value).__name__, hints)
            output = self._outputs[index]
            name = declared[index].name if named else output.name
            outputs.extend(output.encode(name, value, model_name, model_version))
        return response_of(model_name, model_version, outputs)


class _Output:
    """One value that a signature returns."""

    def __init__(self, hint: Any, index: int) -> None:
        self.hint = hint
        self._bare, self._optional = _without_none(hint)
        self.name = f"{OUTPUT_PREFIX}{index}"
        self._codec: Any = _codec_of(hint)
        if self._codec is None:
            raise CodecNotFound(name=self.name, payload_type=_name(hint))

    def fits(self, value: Any) -> bool:
        if value is None:
            return self._optional
        # An empty list shows no type by which a codec could know it; the hint does.
        empty = isinstance(value, list) and not value and typing.get_origin(self._bare) is list
        return empty or self._codec.can_encode(value)

    def encode(
        self, name: str, value: Any, model_name: str, model_version: str | None
    ) -> list[ResponseOutput]:
        """The value's outputs: none for None, one for what a tensor holds, and each column of a frame."""
        if value is None:
            return []
        if hasattr(self._codec, "encode_output"):
            return [self._codec.encode_output(name, value)]
        return list(self._codec.encode_response(model_name, value, model_version).outputs)


def decode_args(predict: Callable[..., Any]) -> Callable[..., Any]:
    """Let a model's `predict` or `predict_stream` take and return plain Python values.

    `async def predict(self, prompt: list[str], scale: np.ndarray | None = None) -> np.ndarray` becomes a
    method from request to response; each input is matched by name and decoded by its annotation. A
    generator, or a method that returns an iterator, becomes a stream that decodes its first request and
    encodes each value; closing the stream closes the method's own generator at once.
    """
    codec = SignatureCodec(predict)
    returned = typing.get_origin(typing.get_type_hints(predict).get("return"))
    if inspect.isasyncgenfunction(predict) or returned in _ASYNC_STREAMS:
        return _stream(predict, codec)
    if inspect.isgeneratorfunction(predict) or returned in _STREAMS:
        return _blocking_stream(predict, codec)
    if inspect.iscoroutinefunction(predict):
        return _predict(predict, codec)
    return _blocking_predict(predict, codec)


def _encoded(codec: SignatureCodec, model: Any, value: Any) -> InferenceResponse:
    """What a model's method returned as its response. Raises InvalidOutput: the request is not to blame."""
    declared = () if model.for_mlserver else model.outputs
    try:
        return codec.encode_response(value, model.name, model.version, declared)
    except CodecError as error:
        raise InvalidOutput(
            f"Model {model.name} returned a value that cannot be encoded: {error.message}"
        ) from error


def _predict(function: Callable[..., Any], codec: SignatureCodec) -> Callable[..., Any]:
    @wraps(function)
    async def predict(self: Any, payload: InferenceRequest) -> InferenceResponse:
        value = await function(self, **codec.decode_request(payload))
        return _encoded(codec, self, value)

    return predict


def _blocking_predict(function: Callable[..., Any], codec: SignatureCodec) -> Callable[..., Any]:
    @wraps(function)
    def predict(self: Any, payload: InferenceRequest) -> InferenceResponse:
        value = function(self, **codec.decode_request(payload))
        return _encoded(codec, self, value)

    return predict


def _stream(function: Callable[..., Any], codec: SignatureCodec) -> Callable[..., Any]:
    @wraps(function)
    async def stream(
        self: Any, payloads: AsyncIterable[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        payload = await anext(aiter(payloads), None)
        if payload is None:
            return
        values = function(self, **codec.decode_request(payload))
        if inspect.isawaitable(values):
            values = await values
        try:
            async for value in values:
                yield _encoded(codec, self, value)
        finally:
            # Closing the wrapper would otherwise leave the author's own `finally` to the garbage collector.
            if hasattr(values, "aclose"):
                await values.aclose()

    return stream


def _blocking_stream(function: Callable[..., Any], codec: SignatureCodec) -> Callable[..., Any]:
    @wraps(function)
    def stream(self: Any, payloads: Iterable[InferenceRequest]) -> Iterator[InferenceResponse]:
        payload = next(iter(payloads), None)
        if payload is None:
            return
        values = function(self, **codec.decode_request(payload))
        try:
            for value in values:
                yield _encoded(codec, self, value)
        finally:
            if hasattr(values, "close"):
                values.close()

    return stream


def _parameters(function: Callable[..., Any], hints: dict[str, Any]) -> list[inspect.Parameter]:
    """The parameters that a request fills: not `self`, `*args` or `**kwargs`, nor a default without a hint."""
    filled = []
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        hint = hints.get(parameter.name)
        variadic = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        is_self = index == 0 and _codec_of(hint) is None
        is_constant = hint is None and parameter.default is not inspect.Parameter.empty
        if not (variadic or is_self or is_constant):
            filled.append(parameter)
    return filled


def _codec_of(hint: Any) -> Any:
    bare, _ = _without_none(hint)
    return find_input_codec(type_hint=bare) or find_request_codec(type_hint=bare)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """The hint without `None`, and whether it allowed it."""
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    members = [member for member in typing.get_args(hint) if member is not type(None)]
    optional = len(members) < len(typing.get_args(hint))
    return (members[0], optional) if len(members) == 1 else (Union[tuple(members)], optional)  # noqa: UP007


def _output_hints(returned: Any) -> list[Any]:
    hint = returned
    if typing.get_origin(hint) in (*_ASYNC_STREAMS, *_STREAMS):
        hint = typing.get_args(hint)[0]
    if hint is None or hint is type(None) or hint is InferenceResponse:
        return []
    if isinstance(hint, tuple):
        return list(hint)  # `-> (A, B)`, which Python takes as it is
    if typing.get_origin(hint) is tuple:
        return list(typing.get_args(hint))
    return [hint]


def _name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)
