"""The Hugging Face runtime of MLServer, for model code that subclasses it."""

from typing import Any

from inferstream.codecs import RequestCodec
from inferstream.plugins.frameworks.awaited import Awaited
from inferstream.types import InferenceRequest, InferenceResponse

from . import huggingface
from .pipelines.settings import PipelineSettings
from .pipelines.tensors import decode_arguments, encode_results

STANDS_IN = True
"""If a settings file names the class, the server uses `huggingface.HuggingFaceRuntime`, which can batch."""

HuggingFaceSettings = PipelineSettings


class HuggingFaceRuntime(Awaited, huggingface.HuggingFaceRuntime):
    """Runs a transformers pipeline, `self._model`. `predict` is async."""


class HuggingfaceRequestCodec(RequestCodec):
    """Converts requests to the arguments of a pipeline, and its results to a response."""

    ContentType = "hf"

    @classmethod
    def can_encode(cls, payload: Any) -> bool:
        return isinstance(payload, dict | list)

    @classmethod
    def decode_request(cls, request: InferenceRequest) -> dict[str, Any]:
        return decode_arguments(request)

    @classmethod
    def encode_response(
        cls, model_name: str, payload: Any, model_version: str | None = None, **options: Any
    ) -> InferenceResponse:
        results = payload if isinstance(payload, list) else [payload]
        return InferenceResponse.of(model_name, [encode_results(results)], model_version)
