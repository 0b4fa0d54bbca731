"""The TGI dialect: its routes, and the choice between the two formats of a request."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferstream.errors import InvalidRequest
from inferstream.ext.calls import Action, Admission, Caller, Operation
from inferstream.ext.http import (
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

from ..context_length import find_context_length
from ..fields import MAX_STOPS, Fields, wrong_field
from ..interface import TextInterface
from ..schemas import FLAG, OBJECT_OR_LIST, STRING, object_schema
from ..text_dialect import TextDialect, TextRequest, admit_by_name, require_text_interface
from ..text_models import list_text_models
from .errors import error_object, error_status
from .formats import TgiFormat
from .parameters import MAX_SEQUENCES, MAX_TOP_TOKENS, SCHEMAS, read_parameters
from .prompt import PROMPT_SCHEMA, read_prompt

ROOT, GENERATE, GENERATE_STREAM = "/", "/generate", "/generate_stream"

FORMS = "The body needs inputs, as for TGI, or prompt"


class Tgi(TextDialect):
    """Text Generation Inference routes and the plain `/generate`."""

    name = "tgi"
    title = "TGI"
    inferences = dict.fromkeys((ROOT, GENERATE, GENERATE_STREAM), Operation.STREAM)

    def reads(self) -> Sequence[ReadClaim]:
        return [
            ReadClaim("/info", Action.SERVER_METADATA, self._info),
            ReadClaim("/health", Action.HEALTH, self._health),
        ]

    def described(self) -> Mapping[str, Any]:
        tgi = {"inputs": STRING, "parameters": object_schema((), **SCHEMAS), "model": STRING}
        inputs = object_schema(("inputs",), **tgi)
        summary = "A text, or a stream of tokens"
        either = {"oneOf": [PROMPT_SCHEMA, inputs]}
        return {
            ROOT: describe_post(
                summary,
                object_schema(("inputs",), **tgi, stream=FLAG),
                {"inputs": "text"},
                answer=OBJECT_OR_LIST,
            ),
            GENERATE: describe_post(summary, either, {"prompt": "text", "stream": True}),
            GENERATE_STREAM: describe_post("A stream of tokens", inputs, {"inputs": "text"}),
            "/info": describe_get("The default model"),
            "/health": describe_get("Whether every model is ready"),
        }

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        fields = Fields.read(body)
        named = fields.names()
        plain = "prompt" in named and route.template == GENERATE
        if plain == ("inputs" in named):
            raise _missing_prompt_error(route.template, both=plain)
        name = fields.text("model") or self._default_model(caller)
        admission = admit_by_name(self._dataplane, name, caller)
        interface = require_text_interface(admission, name, takes_prompt=True)
        if plain:
            return read_prompt(fields, admission, interface)
        asked = _read_tgi(fields, admission, interface, route.template)
        asked.limit = self._settings.max_body_bytes
        return asked

    error_status, error_object = staticmethod(error_status), staticmethod(error_object)

    async def _info(self, _: ReadRoute, caller: Caller, __: AsgiScope) -> Answer:
        """Return the default model and the request limits. Unknown values are null."""
        name = self._default_model(caller)
        model = dict(list_text_models(self._dataplane, caller)).get(name)
        described = model and self._dataplane.described(model.name, model.version)
        length = find_context_length(described.signature) if described else None
        return json_answer(
            {
                "model_id": name,
                "model_sha": None,
                "model_dtype": None,
                "model_device_type": None,
                "model_pipeline_tag": "text-generation",
                "max_concurrent_requests": None,
                "max_best_of": MAX_SEQUENCES,
                "max_stop_sequences": MAX_STOPS,
                "max_top_n_tokens": MAX_TOP_TOKENS,
                "max_input_tokens": length and length - 1,
                "max_total_tokens": length,
                "max_client_batch_size": 1,
                "router": "inferstream",
                "version": self._settings.server_version,
                "sha": None,
                "docker_label": None,
            }
        )

    async def _health(self, *_: object) -> Answer:
        if self._dataplane.ready:
            return json_answer({"status": "healthy"})
        return json_answer({"error": "The server is not ready.", "error_type": "healthcheck"}, 503)


def _missing_prompt_error(path: str, both: bool) -> InvalidRequest:
    """Return the error for a body with neither or both of `inputs` and `prompt`."""
    if path != GENERATE:
        return wrong_field("inputs", "is missing")
    sentence = f"{FORMS}; it has both." if both else f"{FORMS}."
    kind = "value_error" if both else "missing"
    return InvalidRequest(
        sentence,
        [{"type": kind, "loc": [name], "msg": sentence} for name in ("inputs", "prompt")],
    )


def _read_tgi(fields: Fields, admission: Admission, interface: TextInterface, path: str) -> TextRequest:
    inputs = fields.require_text("inputs")
    if not inputs:
        raise fields.wrong("inputs", "must not be empty")
    streamed = path == GENERATE_STREAM or (path == ROOT and fields.flag("stream"))
    asked = read_parameters(fields, interface, streamed)
    generation = asked.generation
    requests = [
        generation.build_request(interface, inputs, asked.inputs, index) for index in range(asked.sequences)
    ]
    format = TgiFormat(
        asked.sequences,
        details=asked.details,
        prompt=inputs if asked.full_text else "",
        seed=asked.seed,
        listed=path == ROOT,
    )
    return TextRequest(admission, generation, requests, format, streamed)
