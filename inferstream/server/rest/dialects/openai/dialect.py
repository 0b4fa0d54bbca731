"""The paths of OpenAI's dialect, and how their requests are read."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from inferstream import Settings
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

from .....errors import ModelNotFound
from .....settings.state import StateSettings
from .....text.context_length import context_length_of
from .....text.fields import Fields
from .....text.schemas import STRING, Schema, an_object
from ..anthropic import models as anthropic
from ..anthropic.events import error_object as anthropic_error
from ..text import TextDialect, admit_named
from ..text_models import described, listed
from .chat import read_chat
from .completions import read_completions
from .embeddings import EmbeddingRequest
from .errors import error_object
from .responses import no_conversations, read_response, unstored
from .states import RecentItems, SealedStates

PREFIXES = ("/v1", "/openai/v1")

DUMMIES = ("tgi", "dummy")
"""Models that clients of TGI name. They mean the default model if no model has the name."""


class TextPath(NamedTuple):
    """The field that a request needs beside the model, with an example of it, and what a stream of it is."""

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
"""By the part of the path after the prefix."""


class OpenAI(TextDialect):
    """Chat, completions, responses, embeddings and models."""

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
                ReadClaim(f"{prefix}/conversations", Action.RESUME, no_conversations, ("POST",)),
                ReadClaim(
                    f"{prefix}/responses/{{response_id}}", Action.RESUME, unstored, ("GET", "DELETE", "POST")
                ),
            )
        ]

    def described(self) -> Mapping[str, Any]:
        paths: dict[str, Any] = {}
        for path in self.inferences:
            action = path.rpartition("/v1")[2]
            field, schema, value, stream = PATHS[action]
            body = an_object(("model", field), model=STRING, **{field: schema})
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
        name = fields.needed_text("model")
        admission = self._admit(name, caller)
        return self._readers[route.template.rpartition("/v1")[2]](fields, admission, name)

    def _admit(self, name: str, caller: Caller) -> Admission:
        """Admission to `model`, `model:version`, or the default model for the name that clients of TGI send."""
        try:
            return admit_named(self._dataplane, name, caller)
        except ModelNotFound:
            if name not in DUMMIES:
                raise
        return self._dataplane.admit(self._default_model(caller), None, caller)

    error_object = staticmethod(error_object)

    async def _models(self, _: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        """The models that take text, and the names of all models as KServe's clients read them."""
        models = [
            (name, model.created, model.name, self._context_length(model.name, model.version))
            for name, model in listed(self._dataplane, caller)
        ]
        if anthropic.asks(scope["headers"]):
            infos = [anthropic.model_info(name, created, length) for name, created, _, length in models]
            return json_answer(anthropic.model_page(infos))
        data = [_described(*model) for model in models]
        names = sorted({name for name, _ in self._dataplane.models(caller)})
        if b"client_version=" in scope["query_string"]:  # Codex CLI wants descriptions here, and needs none
            names = []
        return json_answer({"object": "list", "data": data, "models": names})

    async def _model(self, route: ReadRoute, caller: Caller, scope: AsgiScope) -> Answer:
        """One model, for clients of OpenAI and of KServe (protocol §3.14), or of Anthropic."""
        asks = anthropic.asks(scope["headers"])
        try:
            return self._one(route, asks)
        except ModelNotFound as error:
            if not asks:
                raise
            return json_answer(anthropic_error(error), 404)

    def _one(self, route: ReadRoute, of_anthropic: bool) -> Answer:
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
        created = described(self._dataplane, model, version).created
        if of_anthropic:
            return json_answer(anthropic.model_info(name, created, self._context_length(model, version)))
        return json_answer(_described(name, created, model, self._context_length(model, version)) | state)

    def _context_length(self, name: str, version: str | None) -> int | None:
        return context_length_of(self._dataplane.described(name, version).signature)


def _described(name: str, created: int, root: str, context_length: int | None) -> dict[str, Any]:
    """A model as OpenAI describes it, with the fields by which endpoint pickers know vLLM's adapters.

    The names of the context's length are those of vLLM, OpenRouter and llama.cpp.
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
