"""`MLModel`, the base class of models, and `StepModel`, for streams that advance together."""

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
    """Tell type checkers that a subclass may write `method` as `def`, `async def` or either kind of generator."""
    return method


class MLModel:
    """One model. Override `load` to read artefacts, and `predict`, `predict_stream` or both.

    **Thread.** Each method may be `def` or `async def`; `predict_stream` is a generator of either kind.
    A `def` runs in a thread, several calls at once. The constructor, `load` and every `async def` of a model that has
    any run in an event loop of the model's own, or in the server's with the setting `"loop": "server"`.

    **Cancellation.** When a client leaves or its deadline passes, async code is cancelled at its `await`,
    and a blocking generator is closed at its next `yield`. `finally` runs in both cases. A blocking `predict`
    runs to its end; it can read `inferstream.request_context()` and stop.

    **Errors.** A `ModelError` reaches the client with its message and status. Any other exception is a 500;
    its details are only in the log.
    """

    selects_outputs: ClassVar[bool | None] = False
    """Whether `predict` itself returns the outputs that the request names, perhaps under other names.

    None: the server selects the requested outputs if the response has all of them.
    """

    for_mlserver: ClassVar[bool] = False
    """Whether the class was written for MLServer. It is then served as there, unless a setting says otherwise."""

    gives_logprobs: ClassVar[bool] = False
    """Whether its tokens carry log probabilities when the parameter `logprobs` of a request is true."""

    takes_token_ids: ClassVar[bool] = False
    """Whether its text may be a JSON list of token numbers, when the parameter `token_ids` of a request is true."""

    separates_principals: ClassVar[bool] = False
    """Whether it keeps something for later requests, and reads `request_context().cache_salt` to keep it apart."""

    kv_usage: float | None = None
    """The part of its KV cache in use, 0 to 1, for load balancers and autoscalers; an attribute or a property.

    None: it has no such cache, or does not report it. A `StepModel` then reports its active streams by `max_active`.
    """

    _description = Description()
    """What a runtime knows of its model where nothing is declared. It replaces this when it loads."""

    _class_inputs: Tensors = ()
    _class_outputs: Tensors = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep tensors that a class declares by attributes, so that these do not hide the properties."""
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
        self.inputs = settings.inputs or _copied(self._class_inputs)
        self.outputs = settings.outputs or _copied(self._class_outputs)
        # Not by the setters: an annotation must not choose a codec in `decode` of a model that declares none.
        annotated = annotated_signature(type(self))
        if annotated.inputs and not self.inputs:
            self._inputs = _copied(annotated.inputs)
        if annotated.outputs and not self.outputs:
            self._outputs = _copied(annotated.outputs)
        self.ready = False

    @property
    def name(self) -> str:
        """Name of the model, as clients address it."""
        return self._settings.name

    @property
    def version(self) -> str | None:
        """Version of the model; None for a model without a version."""
        return self._settings.version

    @property
    def settings(self) -> ModelSettings:
        """Settings of the model: `model-settings.json` and the environment."""
        return self._settings

    @property
    def inputs(self) -> list[MetadataTensor]:
        """Declared inputs, else those of the annotations of `@decode_args`; `load` may replace them."""
        return self._inputs

    @inputs.setter
    def inputs(self, tensors: list[MetadataTensor]) -> None:
        self._inputs = tensors
        self._inputs_index = {tensor.name: tensor for tensor in tensors}

    @property
    def outputs(self) -> list[MetadataTensor]:
        """Declared outputs, else those of the annotations of `@decode_args`; `load` may replace them."""
        return self._outputs

    @outputs.setter
    def outputs(self, tensors: list[MetadataTensor]) -> None:
        self._outputs = tensors
        self._outputs_index = {tensor.name: tensor for tensor in tensors}

    @_overridable
    async def load(self) -> bool | None:
        """Read artefacts and prepare the model, once, before its first request.

        Return False if the model cannot serve; None counts as True. An exception fails the load, and its
        reason is in the repository index. The setting `model_load_timeout` limits the time, in seconds.
        """
        return True

    @_overridable
    async def unload(self) -> bool | None:
        """Release the resources of `load`, once, after the last call has ended. The result is ignored."""
        return True

    @_overridable
    async def predict(self, payload: InferenceRequest) -> "Item":
        """Return the response to one request: an `InferenceResponse`, or a text as `str` or `Token`.

        Inputs and outputs are tensors with a name, a datatype, a shape and data in row-major order. Use codecs
        to convert them. With batching, the first dimension of `payload` holds the rows of several requests, and
        the response must have as many rows. Raises Unsupported unless overridden.
        """
        raise Unsupported(f"Model {self.name} does not implement predict.")

    @_overridable
    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator["Item"]:
        """Yield any number of items (tensors, `str`, `Token`); by default one, from `predict`.

        A blocking generator gets a plain iterator. REST gives one request; gRPC and WebSocket may give several,
        and the iterator then waits for the client. The server takes the next response when the reader has room
        for it. An exception after the first response ends the stream with a typed error.
        """
        async for payload in payloads:
            response = self.predict(payload)
            yield await response if inspect.isawaitable(response) else response
            return

    async def metadata(self) -> MetadataModelResponse:
        """Metadata of the model: name, platform, versions, declared inputs and outputs, else the described ones."""
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
            model.parameters = Parameters(**known, **described.parameters)
        elif described.parameters:
            model.parameters = Parameters(**described.parameters)
        return model

    def decode(self, request_input: RequestInput, default_codec: InputCodecLike | None = None) -> Any:
        """Decode an input by its own content type, else the declared one, else `default_codec`.

        Without any of these, return the `TensorData` of the input. An input is decoded once; later calls return
        the same object. Arrays may be read-only, because they may share the memory of the request.
        Raises CodecError if the data do not fit the codec.
        """
        return decode_request_input(request_input, self._inputs_index, default_codec)

    def decode_request(
        self, inference_request: InferenceRequest, default_codec: RequestCodecLike | None = None
    ) -> Any:
        """Decode a request by its own content type, else the model's, else `default_codec`.

        Without any of these, return the request. Raises CodecError if the data do not fit the codec.
        """
        parameters = self._settings.parameters
        content_type = parameters.content_type if parameters is not None else None
        return decode_inference_request(inference_request, self._inputs_index, content_type, default_codec)

    def encode(
        self, payload: Any, request_output: RequestOutput, default_codec: InputCodecLike | None = None
    ) -> ResponseOutput:
        """Encode a payload as the output that `request_output` names.

        The codec is that of the requested content type, else the declared one, else the first that can encode the
        payload. Raises CodecNotFound without a codec, and CodecError if the codec refuses the payload.
        """
        return encode_response_output(payload, request_output, self._outputs_index, default_codec)

    def encode_response(
        self, payload: Any, default_codec: RequestCodecLike | None = None
    ) -> InferenceResponse:
        """Encode a payload as a whole response, by the first request codec that can.

        Raises CodecNotFound without a codec, and CodecError if the codec refuses the payload.
        """
        return encode_inference_response(payload, self.name, self.version, default_codec)


class Finished:
    """The end of a state in a `StepModel`: `Finished()`, or `Finished(response)` with its last responses."""

    __slots__ = ("responses",)

    def __init__(self, *responses: "Item") -> None:
        self.responses = responses


Item = InferenceResponse | Token | str | bytes
"""What a model may answer or yield: tensors, or a piece of text."""

Emission = Item | Sequence[Item] | Finished | Exception | None
"""Result of a step for one state: one item, several, none yet (None), the end, or the error that ends it."""


class StepModel(MLModel, ABC):
    """A model that advances all its streams together, one step at a time.

    The server runs the loop. It admits requests while fewer than `max_active` states exist, calls `step` with
    every active state, and releases each state exactly once, between two steps. It never calls two of `admit`,
    `step` and `release` at the same time. Methods written `def` run in a thread, the same one for all three.
    Methods written `async def` run on the event loop and must not block it.

    A subclass may also override `predict`, for single requests. Raises TypeError for a subclass with a
    `predict_stream`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.predict_stream is not MLModel.predict_stream:
            raise TypeError(f"{cls.__name__} has steps, so it cannot have a predict_stream too")

    @_overridable
    @abstractmethod
    def admit(self, request: InferenceRequest) -> Any:
        """Begin a stream: return its state, any object.

        `inferstream.request_context()` is that of the request. An exception is the error of this request alone.
        """

    @_overridable
    @abstractmethod
    def step(self, states: Sequence[Any]) -> Sequence[Emission]:
        """Advance all `states`. Return one result for each, in their order.

        `states` holds no state whose client has left, and none whose reader is 8 items behind.
        An exception ends all streams of the step; an exception as a result ends the stream of its state.
        """

    @_overridable
    def release(self, state: Any) -> None:
        """Release the resources of a state that is finished or failed, or whose client left or ran out of time."""


def signature_of(model: MLModel) -> Signature:
    """What a model takes and returns: what it declares, else what its annotations say."""
    annotated = annotated_signature(type(model))
    inputs, inputs_annotated = _known(model.inputs, model.settings.inputs, annotated.inputs)
    outputs, outputs_annotated = _known(model.outputs, model.settings.outputs, annotated.outputs)
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
    """What annotations say of a class; inputs and outputs are unknown unless all of its methods agree on them."""
    if (own := vars(model).get("signature")) is not None and isinstance(own, Signature):
        return own
    methods = {
        name: getattr(model, name)
        for name in ("predict", "predict_stream", "admit")
        if getattr(model, name, None) is not getattr(MLModel, name, None)
    }
    signatures = [decorated_signature(method) or Signature() for method in methods.values()] or [Signature()]
    first = signatures[0]
    docs = [*(method.__doc__ for method in methods.values()), model.__doc__]
    return Signature(
        first.inputs if all(each.inputs == first.inputs for each in signatures) else None,
        first.outputs if all(each.outputs == first.outputs for each in signatures) else None,
        inputs_annotated=True,
        outputs_annotated=True,
        streams=bool(methods.keys() - {"predict"}),
        doc=inspect.cleandoc(next(filter(None, docs), "")),
    )


def _known(
    tensors: Sequence[MetadataTensor], settings: Sequence[MetadataTensor], annotated: Tensors | None
) -> tuple[Tensors | None, bool]:
    """The inputs or the outputs of a model, and whether they are those that annotations give."""
    if settings or list(tensors) != list(annotated or ()):
        return tuple(tensors) or None, False
    return annotated, annotated is not None


def _copied(tensors: Tensors) -> list[MetadataTensor]:
    """Tensors for one model to change."""
    return [tensor.model_copy(deep=True) for tensor in tensors]
