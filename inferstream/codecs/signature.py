"""`decode_args`, which selects codecs based on the annotations of a model method."""

import inspect
import typing
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

from ..errors import CodecError, CodecNotFound, InputsNotFound, InvalidOutput, OutputNotFound
from ..signature import Signature
from ..types import InferenceRequest, InferenceResponse, MetadataTensor, ResponseOutput
from .annotations import (
    choose_codec,
    choose_input_codec,
    input_tensors,
    output_hints,
    output_tensors,
    request_parameters,
    strip_annotation,
)
from .base import OUTPUT_PREFIX, InputCodecLike, RequestCodecLike, build_response
from .registry import find_request_codec
from .values.hints import ASYNC_STREAMS, STREAMS, format_hint, without_none

CODEC = "signature_codec"
"""The attribute of a decorated method that holds its `SignatureCodec`."""


class SignatureCodec:
    """Decodes a request into the arguments of a method, and encodes its return value.

    The constructor runs when the model is imported. It raises CodecNotFound for an annotation without a
    codec.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = typing.get_type_hints(function, include_extras=True)
        returned = hints.pop("return", None)
        parameters = request_parameters(function, hints)
        self._inputs: dict[str, InputCodecLike] = {}
        self._requests: dict[str, RequestCodecLike] = {}
        self._defaults: dict[str, Any] = {}
        self._hints = {parameter.name: format_hint(hints.get(parameter.name)) for parameter in parameters}
        for parameter in parameters:
            self._add_parameter(parameter, hints.get(parameter.name))
        self._outputs = [_Output(hint, index) for index, hint in enumerate(output_hints(returned))]
        origin = typing.get_origin(returned)
        self.is_async_stream = inspect.isasyncgenfunction(function) or origin in ASYNC_STREAMS
        self.signature = Signature(
            input_tensors({name: hints.get(name) for name in self._hints}, self._defaults),
            output_tensors(returned),
            inputs_annotated=True,
            outputs_annotated=True,
            streams=self.is_async_stream or inspect.isgeneratorfunction(function) or origin in STREAMS,
            doc=inspect.cleandoc(function.__doc__ or ""),
        )

    def _add_parameter(self, parameter: inspect.Parameter, hint: Any) -> None:
        name = parameter.name
        if parameter.default is not inspect.Parameter.empty:
            self._defaults[name] = parameter.default
        elif without_none(hint)[1]:
            self._defaults[name] = None
        if (codec := choose_input_codec(hint)) is not None:
            self._inputs[name] = codec
        elif (request_codec := find_request_codec(type_hint=strip_annotation(hint))) is not None:
            self._requests[name] = request_codec
        else:
            raise CodecNotFound(name=name, payload_type=format_hint(hint), is_input=True)

    def decode_request(self, request: InferenceRequest) -> dict[str, Any]:
        """Return the arguments by name. Raises InputsNotFound for missing arguments or unknown inputs."""
        arguments = dict(self._defaults)
        rest = []
        for tensor in request.inputs:
            codec = self._inputs.get(tensor.name)
            if codec is None:
                rest.append(tensor)
            else:
                arguments[tensor.name] = codec.decode_input(tensor)
        if rest:
            if not self._requests:
                raise InputsNotFound(rest, self._hints)
            name, request_codec = next(iter(self._requests.items()))
            others = InferenceRequest.of(rest, None, request.parameters)
            arguments[name] = request_codec.decode_request(others)
        missing = {name: hint for name, hint in self._hints.items() if name not in arguments}
        if missing:
            raise InputsNotFound((), missing)
        return arguments

    def encode_response(
        self,
        payload: Any,
        model_name: str,
        model_version: str | None,
        declared: Sequence[MetadataTensor] = (),
    ) -> InferenceResponse:
        """Encode the method's return value as `output-0`, `output-1`, …, or as the columns of a data frame.

        If the number of `declared` outputs matches, their names are used. Raises OutputNotFound or
        CodecError.
        """
        if isinstance(payload, InferenceResponse):
            return payload
        values = payload if isinstance(payload, tuple) else () if payload is None else (payload,)
        named = len(declared) == len(self._outputs)
        outputs: list[ResponseOutput] = []
        for index, value in enumerate(values):
            if index >= len(self._outputs) or not self._outputs[index].fits(value):
                hints = [format_hint(output.hint) for output in self._outputs]
                raise OutputNotFound(index, type(value).__name__, hints)
            output = self._outputs[index]
            name = declared[index].name if named else output.name
            outputs.extend(output.encode(name, value, model_name, model_version))
        return build_response(model_name, model_version, outputs)


class _Output:
    """One return value of a signature."""

    def __init__(self, hint: Any, index: int) -> None:
        self.hint = hint
        self._bare, self._optional = without_none(hint)
        self.name = f"{OUTPUT_PREFIX}{index}"
        self._codec: Any = choose_codec(hint)
        if self._codec is None:
            raise CodecNotFound(name=self.name, payload_type=format_hint(hint))

    def fits(self, value: Any) -> bool:
        if value is None:
            return self._optional
        # An empty list has no elements to check, so the hint decides.
        empty = isinstance(value, list) and not value and typing.get_origin(self._bare) is list
        return empty or self._codec.can_encode(value)

    def encode(
        self, name: str, value: Any, model_name: str, model_version: str | None
    ) -> list[ResponseOutput]:
        """Encode a value: no output for None, one per column of a data frame, else one output."""
        if value is None:
            return []
        if hasattr(self._codec, "encode_output"):
            return [self._codec.encode_output(name, value)]
        return list(self._codec.encode_response(model_name, value, model_version).outputs)


def decode_args(predict: Callable[..., Any]) -> Callable[..., Any]:
    """Let `predict` or `predict_stream` of a model accept and return plain Python values.

    `async def predict(self, prompt: list[str], scale: np.ndarray | None = None) -> np.ndarray` becomes a
    method that accepts a request and returns a response. Inputs match arguments by name, and the annotations
    select the codecs. A generator, or a method that returns an iterator, becomes a stream, which decodes its
    first request and encodes each value. Closing the stream immediately closes the method's generator.

    The attribute `signature_codec` of the result decodes requests and encodes return values without calling
    the method.
    """
    codec = SignatureCodec(predict)
    if codec.signature.streams:
        wrapper = _stream if codec.is_async_stream else _blocking_stream
    else:
        wrapper = _predict if inspect.iscoroutinefunction(predict) else _blocking_predict
    decorated = wraps(predict)(wrapper(predict, codec))
    setattr(decorated, CODEC, codec)
    return decorated


def decorated_signature(method: Callable[..., Any]) -> Signature | None:
    """Return the signature that `decode_args` derived from the annotations of a method.

    Returns None if it is not decorated.
    """
    codec: SignatureCodec | None = getattr(method, CODEC, None)
    return None if codec is None else codec.signature


def _encode_result(codec: SignatureCodec, model: Any, value: Any) -> InferenceResponse:
    """Encode the return value of a method. Raises InvalidOutput, because the error is in the model."""
    declared = () if model.for_mlserver else model.outputs
    try:
        return codec.encode_response(value, model.name, model.version, declared)
    except CodecError as error:
        raise InvalidOutput(
            f"Model {model.name} returned a value that cannot be encoded: {error.message}"
        ) from error


def _predict(function: Callable[..., Any], codec: SignatureCodec) -> Callable[..., Any]:
    async def predict(self: Any, payload: InferenceRequest) -> InferenceResponse:
        value = await function(self, **codec.decode_request(payload))
        return _encode_result(codec, self, value)

    return predict


def _blocking_predict(function: Callable[..., Any], codec: SignatureCodec) -> Callable[..., Any]:
    def predict(self: Any, payload: InferenceRequest) -> InferenceResponse:
        value = function(self, **codec.decode_request(payload))
        return _encode_result(codec, self, value)

    return predict


def _stream(function: Callable[..., Any], codec: SignatureCodec) -> Callable[..., Any]:
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
                yield _encode_result(codec, self, value)
        finally:
            # Otherwise the `finally` block of the method's generator would only run at garbage collection.
            if hasattr(values, "aclose"):
                await values.aclose()

    return stream


def _blocking_stream(function: Callable[..., Any], codec: SignatureCodec) -> Callable[..., Any]:
    def stream(self: Any, payloads: Iterable[InferenceRequest]) -> Iterator[InferenceResponse]:
        payload = next(iter(payloads), None)
        if payload is None:
            return
        values = function(self, **codec.decode_request(payload))
        try:
            for value in values:
                yield _encode_result(codec, self, value)
        finally:
            if hasattr(values, "close"):
                values.close()

    return stream
