"""The OpenAI dialect: its routes, and the parsing of its requests."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from inferstream import Settings
from inferstream.errors import ModelNotFound
from inferstream.ext.calls import Action, Admission, Caller, Operation, ServerModels
from inferstream.ext.http import (
    EVENT_STREAM,
    OBJECTS,
    Answer,
    AsgiScope,
    Exchange,
    ParsedRequest,
    ReadClaim,
    ReadRoute,
    Route,
    describe_get,
    describe_post,
    json_answer,
)
from inferstream.ext.telemetry import Meters

from ..anthropic import models as anthropic
from ..anthropic.events import error_object as anthropic_error
from ..context_length import find_context_length
from ..fields import Fields
from ..schemas import STRING, Schema, object_schema
from ..state_settings import StateSettings
from ..text_dialect import TextDialect, admit_by_name
from ..text_models import describe_model, list_text_models
from .chat import read_chat
from .completions import read_completions
from .embeddings import EmbeddingRequest
from .errors import error_object
from .responses import read_response, reject_conversation, reject_unstored_response
from .states import RecentItems, SealedStates

PREFIXES = ("/v1", "/openai/v1")

DUMMIES = ("tgi", "dummy")
"""Placeholder names that TGI clients send. They select the default model unless a model has the name."""


class TextPath(NamedTuple):
    """A text route: its required field besides `model`, and the media type of its streams."""

    field: str
    schema: Schema = STRING
    example: Any = "text"
    stream: str | None = EVENT_STREAM


PATHS: Mapping[str, TextPath] = {
    "/chat/completions": TextPath("messages", OBJECTS, [{"role": "user", "content": "text"}]),
    "/completions": TextPath("prompt"),
    "/embeddings": TextPath("input", stream=None),
    "/responses": TextPath("input"),
}
"""Routes, without their prefix."""


class OpenAI(TextDialect):
    """The OpenAI API: chat, completions, responses, embeddings and model lists."""

    name = "openai"
    title = "OpenAI"
    inferences = {prefix + path: Operation.STREAM for prefix in PREFIXES for path in PATHS}

    def __init__(self, dataplane: ServerModels, settings: Settings, meters: Meters) -> None:
        super().__init__(dataplane, settings, meters)
        states = SealedStates(settings.section(StateSettings).state_key_file)
        self._readers: Mapping[str, Callable[[Fields, Admission, str], ParsedRequest]] = {
            "/chat/completions": read_chat,
            "/completions": read_completions,
            "/embeddings": EmbeddingRequest,
            "/responses": partial(read_response, states, RecentItems(), settings.max_body_bytes),
        }

    def reads(self) -> Sequence[ReadClaim]:
        return [
            claim
            for prefix in PREFIXES
            for claim in (
                ReadClaim(f"{prefix}/models", Action.SERVER_METADATA, self._models),
                ReadClaim(f"{prefix}/models/{{model_name}}", Action.MODEL_METADATA, self._model),
                ReadClaim(f"{prefix}/conversations", Action.RESUME, reject_conversation, ("POST",)),
                ReadClaim(
                    f"{prefix}/responses/{{response_id}}",
                    Action.RESUME,
                    reject_unstored_response,
                    ("GET", "DELETE", "POST"),
                ),
            )
        ]

    def described(self) -> Mapping[str, Any]:
        paths: dict[str, Any] = {}
        for path in self.inferences:
            action = path.rpartition("/v1")[2]
            field, schema, value, stream = PATHS[action]
            body = object_schema(("model", field), model=STRING, **{field: schema})
            example = {"model": "model", field: value}
            paths[path] = describe_post(f"OpenAI's {action.strip('/')}", body, example, stream)
        for prefix in PREFIXES:
            paths[f"{prefix}/models"] = describe_get("The models, as OpenAI lists them")
            one = describe_get("One model, as OpenAI describes it")
            one["get"]["parameters"] = [
                {"name": "model_name", "in": "path", "required": True, "schema": STRING}
            ]
            paths[f"{prefix}/models/{{model_name}}"] = one
        return paths

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        fields = Fields.read(body)
        name = fields.require_text("model")
        admission = self._admit(name, caller)
        return self._readers[route.template.rpartition("/v1")[2]](fields, admission, name)

    def _admit(self, name: str, caller: Caller) -> Admission:
        """Admit a call to `model`, `model:version`, or the default model for a placeholder of TGI clients."""
        try:
            return admit_by_name(self._dataplane, name, caller)
        except ModelNotFound:
            if name not in DUMMIES:
                raise
        return self._dataplane.admit(self._default_model(caller), None, caller)

    error_object = staticmethod(error_object)

    async def _models(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        """List the models that take text, and the names of all models for KServe clients."""
        models = [
            (name, model.created, model.name, self._context_length(model.name, model.version))
            for name, model in list_text_models(self._dataplane, caller)
        ]
        if anthropic.is_anthropic_request(scope["headers"]):
            infos = [anthropic.model_info(name, created, length) for name, created, _, length in models]
            return json_answer(anthropic.model_page(infos))
        data = [_model_document(*model) for model in models]
        names = sorted({name for name, _ in self._dataplane.models(caller)})
        if b"client_version=" in scope["query_string"]:  # Codex CLI expects descriptions here
            names = []
        return json_answer({"object": "list", "data": data, "models": names})

    async def _model(self, route: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        """Return one model, for OpenAI and KServe (protocol §3.14) or Anthropic clients."""
        asks = anthropic.is_anthropic_request(scope["headers"])
        try:
            return self._describe_model(route, asks)
        except ModelNotFound as error:
            if not asks:
                raise
            return json_answer(anthropic_error(error), 404)

    def _describe_model(self, route: ReadRoute, of_anthropic: bool) -> Answer:
        name, model, version = route.model, route.model, route.version
        try:
            ready = self._dataplane.model_ready(model, version)
        except ModelNotFound:
            model, _, version = name.rpartition(":")
            if not (model and version) or route.version is not None:
                raise
            ready = self._dataplane.model_ready(model, version)
        state = {"name": name, "ready": ready}
        if not ready:
            return json_answer(state, 503)
        created = describe_model(self._dataplane, model, version).created
        if of_anthropic:
            return json_answer(anthropic.model_info(name, created, self._context_length(model, version)))
        return json_answer(
            _model_document(name, created, model, self._context_length(model, version)) | state
        )

    def _context_length(self, name: str, version: str | None) -> int | None:
        return find_context_length(self._dataplane.described(name, version).signature)


def _model_document(name: str, created: int, root: str, context_length: int | None) -> dict[str, Any]:
    """Return a model in the OpenAI format, with the fields that identify vLLM adapters to endpoint pickers.

    The context length is repeated under the field names of vLLM, OpenRouter and llama.cpp.
    """
    n = context_length
    lengths = {} if n is None else {"max_model_len": n, "context_length": n, "meta": {"n_ctx": n}}
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "inferstream",
        "root": root,
        "parent": None,
        **lengths,
    }
