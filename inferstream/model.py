"""`MLModel`: what a model author subclasses; `StepModel`, for streams that advance together."""

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
from .signature import Signature, Tensors
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
    """One servable model.

    Override `load` to read artefacts, and `predict`, `predict_stream` or both to answer. Each may be
    written `def` or `async def`, `predict_stream` as either kind of generator; blocking code runs in a
    thread. A generator's `finally` runs as soon as its client leaves.
    """

    selects_outputs: ClassVar[bool | None] = False
    """Whether `predict` itself answers what the request's `outputs` ask for, perhaps under other names.

    None says that it may: what was asked for is picked out of its answer where all of it is there.
    """

    for_mlserver: ClassVar[bool] = False
    """Whether the class was written for MLServer, and is served as it was there where no setting says otherwise."""

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._inputs_index: dict[str, MetadataTensor] = {}
        self._outputs_index: dict[str, MetadataTensor] = {}
        self.inputs = settings.inputs
        self.outputs = settings.outputs
        # Not by the setters: an annotation must not choose a codec in `decode` of a model that declares none.
        annotated = annotated_signature(type(self))
        if annotated.inputs and not settings.inputs:
            self._inputs = _copied(annotated.inputs)
        if annotated.outputs and not settings.outputs:
            self._outputs = _copied(annotated.outputs)
        self.ready = False

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def version(self) -> str | None:
        return self._settings.version

    @property
    def settings(self) -> ModelSettings:
        return self._settings

    @property
    def inputs(self) -> list[MetadataTensor]:
        """Declared inputs, else those that the annotations of `@decode_args` give.

        `load` may replace them with what it finds in the artefact.
        """
        return self._inputs

    @inputs.setter
    def inputs(self, tensors: list[MetadataTensor]) -> None:
        self._inputs = tensors
        self._inputs_index = {tensor.name: tensor for tensor in tensors}

    @property
    def outputs(self) -> list[MetadataTensor]:
        """Declared outputs, else those that the annotations of `@decode_args` give.

        `load` may replace them with what it finds in the artefact.
        """
        return self._outputs

    @outputs.setter
    def outputs(self, tensors: list[MetadataTensor]) -> None:
        self._outputs = tensors
        self._outputs_index = {tensor.name: tensor for tensor in tensors}

    async def load(self) -> bool:
        """Get ready to answer. Returning False says that the model cannot."""
        return True

    async def unload(self) -> bool:
        """Let go of what `load` took."""
        return True

    @_overridable
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer one request with one response."""
        raise Unsupported(f"Model {self.name} does not implement predict.")

    @_overridable
    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        """Answer one or more requests with any number of responses; by default one, from `predict`."""
        async for payload in payloads:
            response = self.predict(payload)
            yield await response if inspect.isawaitable(response) else response
            return

    async def metadata(self) -> MetadataModelResponse:
        """What the model says of itself, from its settings."""
        model = MetadataModelResponse(
            name=self.name,
            platform=self._settings.platform,
            versions=self._settings.versions,
            inputs=self.inputs,
            outputs=self.outputs,
        )
        if self._settings.parameters is not None:
            model.parameters = Parameters(content_type=self._settings.parameters.content_type)
        return model

    def decode(self, request_input: RequestInput, default_codec: InputCodecLike | None = None) -> Any:
        """The payload of an input by its content type, the declared one, or `default_codec`; else its data."""
        return decode_request_input(request_input, self._inputs_index, default_codec)

    def decode_request(
        self, inference_request: InferenceRequest, default_codec: RequestCodecLike | None = None
    ) -> Any:
        """The payload of a request by its content type, the model's, or `default_codec`; else the request."""
        parameters = self._settings.parameters
        content_type = parameters.content_type if parameters is not None else None
        return decode_inference_request(inference_request, self._inputs_index, content_type, default_codec)

    def encode(
        self, payload: Any, request_output: RequestOutput, default_codec: InputCodecLike | None = None
    ) -> ResponseOutput:
        """A payload as the output asked for. Raises CodecNotFound."""
        return encode_response_output(payload, request_output, self._outputs_index, default_codec)

    def encode_response(
        self, payload: Any, default_codec: RequestCodecLike | None = None
    ) -> InferenceResponse:
        """A payload as a whole response. Raises CodecNotFound."""
        return encode_inference_response(payload, self.name, self.version, default_codec)


class Finished:
    """The end of a state: `Finished()`, or `Finished(response)` with what is left to say."""

    __slots__ = ("responses",)

    def __init__(self, *responses: InferenceResponse) -> None:
        self.responses = responses


Emission = InferenceResponse | Sequence[InferenceResponse] | Finished | Exception | None
"""What a step makes of one state: a response, several, or nothing yet; the end; or the error that ends it."""


class StepModel(MLModel, ABC):
    """A model whose streams advance together, one step of all of them at a time.

    The server keeps the loop: it admits requests whenever there is a place, steps over every active
    state at once, and releases each state exactly once, between two steps. So `admit`, `step` and
    `release` are never called at the same time. Each may be `async def`, and then runs on the event loop,
    or `def`, and then runs in a thread, the same one for all three.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.predict_stream is not MLModel.predict_stream:
            raise TypeError(f"{cls.__name__} has steps, so it cannot have a predict_stream too")

    @_overridable
    @abstractmethod
    def admit(self, request: InferenceRequest) -> Any:
        """Begin a stream: return its state, any object. What is raised here is the answer to this request alone."""

    @_overridable
    @abstractmethod
    def step(self, states: Sequence[Any]) -> Sequence[Emission]:
        """Advance every one of `states`; return what comes of each, in their order.

        What is raised here ends all of them.
        """

    @_overridable
    def release(self, state: Any) -> None:
        """Let go of what `admit` and `step` took for a state that is finished, failed, left or out of time."""


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
    )


def annotated_signature(model: type[MLModel]) -> Signature:
    """What annotations say of a class; inputs and outputs are unknown unless all of its methods agree on them."""
    methods = {
        name: getattr(model, name)
        for name in ("predict", "predict_stream", "admit")
        if getattr(model, name, None) is not getattr(MLModel, name, None)
    }
    found = [decorated_signature(method) or Signature() for method in methods.values()] or [Signature()]
    first = found[0]
    docs = [*(method.__doc__ for method in methods.values()), model.__doc__]
    return Signature(
        first.inputs if all(each.inputs == first.inputs for each in found) else None,
        first.outputs if all(each.outputs == first.outputs for each in found) else None,
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
