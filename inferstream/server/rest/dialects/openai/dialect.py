"""The paths of OpenAI's dialect, and how their requests are read."""

from collections.abc import Sequence
from typing import Any

import orjson

from .....dataplane.access import Action
from .....dataplane.admission import Admission
from .....dataplane.call import Operation, new_id
from .....dataplane.caller import Caller
from .....errors import InferstreamError, ModelNotFound
from .....text.chat import read_messages
from .....text.fields import Fields, wrong_field
from .....text.generation import Generation, expect_logprobs, sampling
from .....text.inputs import MESSAGES, SUFFIX
from .....text.interface import TextInterface
from .....text.tools import read_tools
from .....types import InferenceRequest
from ....status import http_headers, status_of
from ...exchange import Exchange
from ...messages import JSON, RawHeaders
from ..base import InferenceDialect, ParsedRequest, ReadClaim, ReadRoute, Route
from ..text import TextRequest, admit_named
from .chat import ChatFormat, logprobs_asked
from .completions import CompletionFormat, prompts
from .embeddings import EmbeddingRequest
from .errors import error_object
from .responses import read_response, unstored

PREFIXES = ("/v1", "/openai/v1")

MOST_CHOICES = 128
"""Texts of one request."""

DUMMIES = ("tgi", "dummy")
"""Models that clients of TGI name. They mean the default model if no model has the name."""

GENERAL = frozenset[str]().union(
    ("model", "messages", "prompt", "suffix", "echo", "n", "best_of", "stream", "stream_options", "stop"),
    ("max_tokens", "max_completion_tokens", "logprobs", "top_logprobs", "logit_bias", "response_format"),
    ("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "web_search_options"),
    ("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"),
    ("modalities", "audio", "prediction", "reasoning_effort", "verbosity"),
)
"""Fields that never become parameters of the request to the model."""


class OpenAI(InferenceDialect):
    """Chat, completions, responses, embeddings and models."""

    name = "openai"
    yields = True
    body_decides = True
    inferences = {
        prefix + path: Operation.STREAM
        for prefix in PREFIXES
        for path in ("/chat/completions", "/completions", "/embeddings", "/responses")
    }

    def reads(self) -> Sequence[ReadClaim]:
        return [
            claim
            for prefix in PREFIXES
            for claim in (
                ReadClaim(f"{prefix}/models", Action.SERVER_METADATA, self._models),
                ReadClaim(f"{prefix}/models/{{model_name}}", Action.MODEL_METADATA, self._model),
                ReadClaim(
                    f"{prefix}/responses/{{response_id}}", Action.RESUME, unstored, ("GET", "DELETE", "POST")
                ),
            )
        ]

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        fields = Fields.read(body)
        name = fields.needed_text("model")
        admission = self._admit(name, caller)
        interface = admission.text
        if route.template.endswith("/embeddings"):
            return EmbeddingRequest.read(fields, admission, interface, name)
        if interface is None:
            raise wrong_field("model", f"{name} does not take text")
        if not interface.generates:
            raise wrong_field("model", f"{name} returns vectors, not texts")
        if route.template.endswith("/chat/completions"):
            return _chat(fields, admission, interface, name)
        if route.template.endswith("/responses"):
            return read_response(fields, admission, interface, name)
        return _completions(fields, admission, interface, name)

    def _admit(self, name: str, caller: Caller) -> Admission:
        """Admission to `model`, `model:version`, or the default model for the name that clients of TGI send."""
        try:
            return admit_named(self._dataplane, name, caller)
        except ModelNotFound:
            if name not in DUMMIES:
                raise
        return self._dataplane.admit(self._dataplane.default_text_model(), None, caller)

    def error(self, error: InferstreamError) -> tuple[int, RawHeaders, bytes]:
        status = status_of(error, self._settings.status_profile).http
        return status, [JSON, *http_headers(error)], orjson.dumps(error_object(error))

    async def _models(self, _: ReadRoute) -> tuple[int, bytes]:
        """The models that take text, and the names of all models as KServe's clients read them."""
        data = [
            _described(f"{model.name}:{model.version}" if named else model.name, model.created, model.name)
            for model in self._dataplane.text_models()
            for named in ((False, True) if model.default and model.version else (not model.default,))
        ]
        names = sorted({name for name, _ in self._dataplane.models()})
        return 200, orjson.dumps({"object": "list", "data": data, "models": names})

    async def _model(self, route: ReadRoute) -> tuple[int, bytes]:
        """One model, for clients of OpenAI and of KServe (protocol §3.14)."""
        name, model, version = route.model, route.model, route.version
        try:
            ready = self._dataplane.model_ready(model, version)
        except ModelNotFound:
            model, _, version = name.rpartition(":")
            if not (model and version) or route.version is not None:
                raise
            ready = self._dataplane.model_ready(model, version)
        found = {"name": name, "ready": ready}
        if not ready:
            return 503, orjson.dumps(found)
        created = self._dataplane.created(model, version)
        return 200, orjson.dumps(_described(name, created, model) | found)


def _described(name: str, created: int, root: str) -> dict[str, Any]:
    """A model as OpenAI describes it, with the fields by which endpoint pickers know vLLM's adapters."""
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "inferstream",
        "root": root,
        "parent": None,
    }


def _chat(fields: Fields, admission: Admission, interface: TextInterface, name: str) -> TextRequest:
    chat = read_messages(fields)
    inputs: dict[str, Any] = {**chat.inputs(interface.takes)}
    tool_inputs, parameters = read_tools(fields, interface)
    inputs |= tool_inputs
    generation = _generation(fields, interface, parameters, logprobs_asked(fields))
    prompt = None if interface.takes(MESSAGES) else interface.chat_prompt(chat.messages)
    count = fields.integer("n", 1, MOST_CHOICES) or 1
    requests = [generation.request(interface, prompt, inputs, index) for index in range(count)]
    streamed, usage = _streaming(fields)
    format = ChatFormat(_identified(requests), name, count, usage)
    return TextRequest(admission, generation, requests, format, streamed)


def _completions(fields: Fields, admission: Admission, interface: TextInterface, name: str) -> TextRequest:
    texts = prompts(fields)
    count = fields.integer("n", 1, MOST_CHOICES) or 1
    if len(texts) * count > MOST_CHOICES:
        raise fields.wrong(
            "prompt", f"asks for {len(texts) * count} texts, at most {MOST_CHOICES} are allowed"
        )
    if (best := fields.integer("best_of", 1)) is not None and best > count:
        raise fields.wrong("best_of", "must not be larger than n")
    inputs: dict[str, list[str | bytes]] = {}
    if suffix := fields.text("suffix"):
        if not interface.takes(SUFFIX):
            raise fields.wrong("suffix", "the model takes no suffix")
        inputs[SUFFIX] = [suffix]
    if interface.prompt is None:
        raise wrong_field("model", f"{name} takes messages only; use chat completions")
    generation = _generation(fields, interface, {}, fields.integer("logprobs", 0, 5))
    requests = [
        generation.request(interface, text, inputs, index) for text in texts for index in range(count)
    ]
    streamed, usage = _streaming(fields)
    echoed = [text for text in texts for _ in range(count)] if fields.flag("echo") else []
    format = CompletionFormat(_identified(requests), name, len(requests), usage, len(texts), echoed)
    return TextRequest(admission, generation, requests, format, streamed)


def _generation(
    fields: Fields, interface: TextInterface, parameters: dict[str, Any], logprobs: int | None
) -> Generation:
    """What is asked of the model, beside the prompt. `logprobs` is the number of most likely tokens, if any."""
    if logprobs is not None:
        expect_logprobs(interface, "logprobs")
        if logprobs:
            parameters["top_logprobs"] = logprobs
    if fields.object("logit_bias") is not None:
        parameters["logit_bias"] = orjson.dumps(fields.get("logit_bias")).decode()
    parameters |= sampling(fields, GENERAL)
    limit = fields.integer("max_completion_tokens", 1) or fields.integer("max_tokens", 1)
    return Generation(parameters, fields.stop(), limit, logprobs is not None)


def _streaming(fields: Fields) -> tuple[bool, bool]:
    """Whether the client wants a stream, and the usage at its end."""
    streamed, options = fields.flag("stream"), fields.object("stream_options")
    if options is not None and not streamed:
        raise fields.wrong("stream_options", "needs stream to be true")
    return streamed, options is not None and options.flag("include_usage")


def _identified(requests: Sequence[InferenceRequest]) -> str:
    """Give the first request an id, which is that of the response."""
    found = requests[0].__dict__["id"] = new_id()
    return found
