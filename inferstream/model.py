"""`MLModel`, the base class of models, and `StepModel`, for continuous batching."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from .codecs.base import InputCodecLike, RequestCodecLike
from .codecs.lookup import (
    decode_inference_request,
    decode_request_input,
    encode_inference_response,
    encode_response_output,
)
from .codecs.signature import decorated_signature
from .errors import Unsupported
from .settings import ModelSettings
from .signature import Description, Signature, Tensors
from .tokens import Token
from .types import (
    InferenceRequest,
    InferenceResponse,
    MetadataModelResponse,
    MetadataTensor,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)


def _overridable(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let type checkers accept `def`, `async def` or either kind of generator as an override of `method`."""
    return method


class MLModel:
    """One model. Override `load` to read artefacts, and `predict`, `predict_stream` or both.

    **Threads.** Each method can be `def` or `async def`, and `predict_stream` is a generator of either kind.
    A `def` method runs in a thread, and several calls can run at once. If a model has an `async def` method,
    its constructor, `load` and all its `async def` methods run in the model's own event loop. With the
    setting `"loop": "server"`, they run in the server's event loop.

    **Cancellation.** If a client disconnects or its deadline passes, async code is cancelled at its `await`,
    and a blocking generator is closed at its next `yield`. `finally` blocks run in both cases. A blocking
    `predict` is not interrupted, but it can check `inferstream.request_context().cancelled` and stop.

    **Errors.** A `ModelError` reaches the client with its message and status. Any other exception is logged,
    and the client receives a 500 without details.
    """

    selects_outputs: ClassVar[bool | None] = False
    """Whether `predict` itself selects the outputs that the request names, perhaps under other names.

    None: the server selects the requested outputs if the response has all of them.
    """

    for_mlserver: ClassVar[bool] = False
    """Whether the class was written for MLServer.

    The server then behaves like MLServer, unless a setting overrides it.
    """

    gives_logprobs: ClassVar[bool] = False
    """Whether the model's tokens carry log probabilities if the request parameter `logprobs` is true."""

    takes_token_ids: ClassVar[bool] = False
    """Whether the prompt can be a JSON list of token ids if the request parameter `token_ids` is true."""

    separates_principals: ClassVar[bool] = False
    """Whether the model keeps state between requests and separates it by `request_context().cache_salt`."""

    kv_usage: float | None = None
    """The fraction of the KV cache in use, 0 to 1, for load balancers and autoscalers.

    An attribute or a property. None if the model has no such cache or does not report it. A `StepModel` then
    reports its active streams divided by `max_active`.
    """

    _description = Description()
    """Properties of a model that declares nothing. The runtime sets them when the model loads."""

    _class_inputs: Tensors = ()
    _class_outputs: Tensors = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Move tensors that a class declares as attributes, so that they do not hide the properties."""
        super().__init_subclass__(**options)
        for name in ("inputs", "outputs"):
            tensors = cls.__dict__.get(name)
            if isinstance(tensors, list) and all(isinstance(each, MetadataTensor) for each in tensors):
                setattr(cls, f"_class_{name}", tuple(tensors))
                delattr(cls, name)

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._inputs_index: dict[str, MetadataTensor] = {}
        self._outputs_index: dict[str, MetadataTensor] = {}
        self.inputs = settings.inputs or _copy_tensors(self._class_inputs)
        self.outputs = settings.outputs or _copy_tensors(self._class_outputs)
        # Not through the setters: without a declaration, an annotation must not choose a codec in `decode`.
        annotated = annotated_signature(type(self))
        if annotated.inputs and not self.inputs:
            self._inputs = _copy_tensors(annotated.inputs)
        if annotated.outputs and not self.outputs:
            self._outputs = _copy_tensors(annotated.outputs)
        self.ready = False

    @property
    def name(self) -> str:
        """The name of the model in requests."""
        return self._settings.name

    @property
    def version(self) -> str | None:
        """The version of the model, or None."""
        return self._settings.version

    @property
    def settings(self) -> ModelSettings:
        """The settings of the model, from `model-settings.json` and the environment."""
        return self._settings

    @property
    def inputs(self) -> list[MetadataTensor]:
        """Declared inputs, or the inputs that `@decode_args` annotations describe.

        `load` may replace them.
        """
        return self._inputs

    @inputs.setter
    def inputs(self, tensors: list[MetadataTensor]) -> None:
        self._inputs = tensors
        self._inputs_index = {tensor.name: tensor for tensor in tensors}

    @property
    def outputs(self) -> list[MetadataTensor]:
        """Declared outputs, or the outputs that `@decode_args` annotations describe.

        `load` may replace them.
        """
        return self._outputs

    @outputs.setter
    def outputs(self, tensors: list[MetadataTensor]) -> None:
        self._outputs = tensors
        self._outputs_index = {tensor.name: tensor for tensor in tensors}

    @_overridable
    async def load(self) -> bool | None:
        """Read artefacts and prepare the model. Called once, before the first request.

        Return False if the model cannot serve requests. None counts as True. An exception fails the load, and
        the repository index shows the reason. The setting `model_load_timeout` limits the time, in seconds.
        """
        return True

    @_overridable
    async def unload(self) -> bool | None:
        """Release the resources that `load` acquired. Called once, after the last call has finished.

        The result is ignored.
        """
        return True

    @_overridable
    async def predict(self, payload: InferenceRequest) -> "Item":
        """Return the response to one request: an `InferenceResponse`, or generated text as `str` or `Token`.

        Inputs and outputs are tensors with a name, a datatype, a shape and data in row-major order. Use
        codecs to convert them. With batching, the first dimension of `payload` holds the rows of several
        requests, and the response must have the same number of rows. Raises Unsupported unless overridden.
        """
        raise Unsupported(f"Model {self.name} does not implement predict.")

    @_overridable
    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator["Item"]:
        """Yield any number of items (tensors, `str`, `Token`). The default yields the result of `predict`.

        A blocking generator receives a plain iterator. REST sends one request. gRPC and WebSocket may send
        several, and the iterator then waits for the client. The server requests the next item when the
        client's buffer has room for it. If an exception is raised after the first item, the stream stops with
        a typed error.
        """
        async for payload in payloads:
            response = self.predict(payload)
            yield await response if inspect.isawaitable(response) else response
            return

    async def metadata(self) -> MetadataModelResponse:
        """Return the model's metadata: name, platform, versions, and the declared inputs and outputs.

        If nothing is declared, the inputs and outputs are the ones that the runtime detected when the model
        loaded.
        """
        described = self._description
        model = MetadataModelResponse(
            name=self.name,
            platform=self._settings.platform,
            versions=self._settings.versions,
            inputs=self.inputs or list(described.inputs),
            outputs=self.outputs or list(described.outputs),
        )
        if self._settings.parameters is not None:
            known = {"content_type": self._settings.parameters.content_type}
            model.parameters = Parameters(**{**known, **described.parameters})
        elif described.parameters:
            model.parameters = Parameters(**described.parameters)
        return model

    def decode(self, request_input: RequestInput, default_codec: InputCodecLike | None = None) -> Any:
        """Decode an input by its content type, by the declared content type, or with `default_codec`.

        Without any of these, return the `TensorData` of the input. An input is decoded once, and later calls
        return the same object. Arrays may be read-only, because they may share the memory of the request.
        Raises CodecError if the data does not fit the codec.
        """
        return decode_request_input(request_input, self._inputs_index, default_codec)

    def decode_request(
        self, inference_request: InferenceRequest, default_codec: RequestCodecLike | None = None
    ) -> Any:
        """Decode a request by its content type, by the model's content type, or with `default_codec`.

        Without any of these, return the request. Raises CodecError if the data does not fit the codec.
        """
        parameters = self._settings.parameters
        content_type = parameters.content_type if parameters is not None else None
        return decode_inference_request(inference_request, self._inputs_index, content_type, default_codec)

    def encode(
        self, payload: Any, request_output: RequestOutput, default_codec: InputCodecLike | None = None
    ) -> ResponseOutput:
        """Encode a payload as the output that `request_output` names.

        The codec is chosen by the requested or declared content type, or is the first that can encode the
        payload. Raises CodecNotFound if no codec can, and CodecError if the codec rejects the payload.
        """
        return encode_response_output(payload, request_output, self._outputs_index, default_codec)

    def encode_response(
        self, payload: Any, default_codec: RequestCodecLike | None = None
    ) -> InferenceResponse:
        """Encode a payload as a whole response, with the first request codec that can.

        Raises CodecNotFound if no codec can, and CodecError if the codec rejects the payload.
        """
        return encode_inference_response(payload, self.name, self.version, default_codec)


class Finished:
    """Ends a stream of a `StepModel`: `Finished()`, or `Finished(response)` with its last responses."""

    __slots__ = ("responses",)

    def __init__(self, *responses: "Item") -> None:
        self.responses = responses


Item = InferenceResponse | Token | str | bytes
"""A value that a model may return or yield: tensors, or a piece of text."""

Emission = Item | Sequence[Item] | Finished | Exception | None
"""The result of a step for one state: an item, several items, None (no item yet), `Finished`, or an error."""


class StepModel(MLModel, ABC):
    """A model that advances all its streams together, one step at a time (continuous batching).

    The server runs the loop. It admits requests while there are fewer than `max_active` states, calls `step`
    with every active state, and releases each state exactly once, between two steps. `admit`, `step` and
    `release` never run at the same time. If they are `def` methods, all three run in the same thread. If they
    are `async def` methods, they run on the event loop and must not block it.

    A subclass can also override `predict`, for single requests. Defining a subclass with a `predict_stream`
    raises TypeError.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.predict_stream is not MLModel.predict_stream:
            raise TypeError(f"{cls.__name__} has steps, so it cannot have a predict_stream too")

    @_overridable
    @abstractmethod
    def admit(self, request: InferenceRequest) -> Any:
        """Start a stream and return its state, which can be any object.

        `inferstream.request_context()` returns the context of the request. An exception fails only this
        request.
        """

    @_overridable
    @abstractmethod
    def step(self, states: Sequence[Any]) -> Sequence[Emission]:
        """Advance all `states`. Return one result for each, in the same order.

        States whose client has disconnected are excluded, and so are states whose client is 8 items behind.
        If the step raises an exception, all its streams fail. If a result is an exception, only the stream of
        its state fails.
        """

    @_overridable
    def release(self, state: Any) -> None:
        """Release the resources of a state that finished, failed, was cancelled or ran out of time."""


def resolve_signature(model: MLModel) -> Signature:
    """Return the signature of a model: its declared inputs and outputs, or the annotated ones."""
    annotated = annotated_signature(type(model))
    inputs, inputs_annotated = _merge_metadata(model.inputs, model.settings.inputs, annotated.inputs)
    outputs, outputs_annotated = _merge_metadata(model.outputs, model.settings.outputs, annotated.outputs)
    return replace(
        annotated,
        inputs=inputs,
        outputs=outputs,
        inputs_annotated=inputs_annotated,
        outputs_annotated=outputs_annotated,
        logprobs=model.gives_logprobs,
        formats=model._description.formats,
        token_ids=model.takes_token_ids,
        described=() if inputs else model._description.inputs,
        parameters=model._description.parameters,
    )


def annotated_signature(model: type[MLModel]) -> Signature:
    """Return the signature that a class's annotations describe.

    Inputs and outputs are None unless all its methods agree on them.
    """
    if (own := vars(model).get("signature")) is not None and isinstance(own, Signature):
        return own
    methods = {
        name: getattr(model, name)
        for name in ("predict", "predict_stream", "admit")
        if getattr(model, name, None) is not getattr(MLModel, name, None)
    }
    signatures = [decorated_signature(method) or Signature() for method in methods.values()] or [Signature()]
    first = signatures[0]
    docs = [each.__doc__ for each in (*methods.values(), model) if not _is_ours(each)]
    return Signature(
        first.inputs if all(each.inputs == first.inputs for each in signatures) else None,
        first.outputs if all(each.outputs == first.outputs for each in signatures) else None,
        inputs_annotated=True,
        outputs_annotated=True,
        streams=bool(methods.keys() - {"predict"}),
        doc=inspect.cleandoc(next(filter(None, docs), "")),
    )


def _is_ours(code: Any) -> bool:
    """Return whether a class or method is part of inferstream. Its docstring does not describe a user's model."""
    return (code.__module__ or "").partition(".")[0] == __package__


def _merge_metadata(
    tensors: Sequence[MetadataTensor], settings: Sequence[MetadataTensor], annotated: Tensors | None
) -> tuple[Tensors | None, bool]:
    """Return the inputs or outputs of a model, and whether they are from annotations."""
    if settings or list(tensors) != list(annotated or ()):
        return tuple(tensors) or None, False
    return annotated, annotated is not None


def _copy_tensors(tensors: Tensors) -> list[MetadataTensor]:
    """Copy tensors, so that a model can modify them without affecting other models."""
    return [tensor.model_copy(deep=True) for tensor in tensors]
