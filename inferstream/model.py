"""`MLModel`: what a model author subclasses."""

import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

from .codecs.base import InputCodecLike, RequestCodecLike
from .codecs.lookup import (
    decode_inference_request,
    decode_request_input,
    encode_inference_response,
    encode_response_output,
)
from .errors import Unsupported
from .settings import ModelSettings
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

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._inputs_index: dict[str, MetadataTensor] = {}
        self._outputs_index: dict[str, MetadataTensor] = {}
        self.inputs = settings.inputs
        self.outputs = settings.outputs
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
        """Declared inputs; `load` may replace them with what it finds in the artefact."""
        return self._inputs

    @inputs.setter
    def inputs(self, tensors: list[MetadataTensor]) -> None:
        self._inputs = tensors
        self._inputs_index = {tensor.name: tensor for tensor in tensors}

    @property
    def outputs(self) -> list[MetadataTensor]:
        """Declared outputs; `load` may replace them with what it finds in the artefact."""
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
