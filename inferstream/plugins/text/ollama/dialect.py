"""The Ollama dialect: its routes, and the parsing of its requests."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from time import perf_counter_ns
from typing import Any

import orjson

from inferstream.errors import ModelNotFound
from inferstream.ext.calls import Action, Admission, Caller, Operation, Reply
from inferstream.ext.http import (
    JSON_HEADER,
    OBJECTS,
    Answer,
    AsgiScope,
    Exchange,
    ParsedRequest,
    RawHeaders,
    ReadClaim,
    ReadRoute,
    Route,
    describe_get,
    describe_post,
    json_answer,
)
from inferstream.types import InferenceRequest, InferenceResponse

from ..chat import MAX_MESSAGES, Chat, base64_bytes
from ..chat import OPTIONS as CHAT_OPTIONS
from ..fields import Fields, wrong_field
from ..generation import Generation, expect_logprobs, read_sampling
from ..inputs import MESSAGES
from ..interface import TextInterface
from ..response_format import Inputs, format_inputs
from ..schemas import STRING, object_schema
from ..text_dialect import TextDialect, TextRequest, add_suffix, admit_by_name, require_text_interface
from ..text_models import describe_model
from ..tools import tool_inputs
from ..vectors import KNOWN as KNOWN_OF_VECTORS
from ..vectors import VectorsRequest
from .keep_alive import KeepAlive
from .lines import LineFormat, error_object
from .models import describe_model_details, list_models

CHAT, GENERATE, EMBED, EMBEDDINGS = "/api/chat", "/api/generate", "/api/embed", "/api/embeddings"
TAGS, RUNNING, SHOW, VERSION = "/api/tags", "/api/ps", "/api/show", "/api/version"

OLLAMA_VERSION = "0.12.11"
"""The Ollama version to report, whose API includes log probabilities. Clients reject older versions."""

LATEST = ":latest"
"""The version that clients append to a model name without a version."""

REFUSED = {
    "template": "is not taken; the model has its own",
    "context": "is not taken; send the turns to /api/chat",
    "width": "is not taken; the model writes texts",
    "height": "is not taken; the model writes texts",
    "steps": "is not taken; the model writes texts",
}
"""Rejected fields, with the reason for each."""

UNUSED = frozenset(
    ("numa", "num_ctx", "num_batch", "num_gpu", "main_gpu", "low_vram", "f16_kv", "num_keep")
) | {*("logits_all", "vocab_only", "use_mmap", "use_mlock", "embedding_only", "num_thread")}
"""Options for loading a model in Ollama, which have no effect here."""

OPTIONS = UNUSED | {"num_predict", "stop", "repeat_penalty"}
"""Options that never become parameters of the model request."""

KNOWN = frozenset(
    ("model", "messages", "prompt", "suffix", "images", "system", "tools", "format", "options", "stream")
).union(("raw", "keep_alive", "logprobs", "top_logprobs"), CHAT_OPTIONS, REFUSED)
"""Other fields that never become parameters of the model request."""


class Ollama(TextDialect):
    """The Ollama API: chat, completions, embeddings and model lists."""

    name = "ollama"
    title = "Ollama"
    inferences = dict.fromkeys((CHAT, GENERATE, EMBED, EMBEDDINGS), Operation.STREAM)

    def reads(self) -> Sequence[ReadClaim]:
        return [
            ReadClaim(TAGS, Action.SERVER_METADATA, self._tags),
            ReadClaim(RUNNING, Action.SERVER_METADATA, self._running),
            ReadClaim(SHOW, Action.MODEL_METADATA, self._show, ("POST",), takes_body=True),
            ReadClaim(VERSION, Action.SERVER_METADATA, self._version),
        ]

    def described(self) -> Mapping[str, Any]:
        needed = {
            CHAT: ("messages", OBJECTS, [{"role": "user", "content": "text"}]),
            GENERATE: ("prompt", STRING, "text"),
            EMBED: ("input", STRING, "text"),
            EMBEDDINGS: ("prompt", STRING, "text"),
        }
        paths = {
            path: describe_post(
                f"Ollama's {path.rpartition('/')[2]}",
                object_schema(("model", field), model=STRING, **{field: schema}),
                {"model": "model", field: value},
                "application/x-ndjson" if path in (CHAT, GENERATE) else None,
            )
            for path, (field, schema, value) in needed.items()
        }
        paths[SHOW] = describe_post(
            "One model", object_schema(("model",), model=STRING), {"model": "model"}, None
        )
        return paths | {
            TAGS: describe_get("The models, as Ollama lists them"),
            RUNNING: describe_get("The models that are loaded"),
            VERSION: describe_get("The version of the server"),
        }

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        fields = Fields.read(body)
        name = fields.require_text("model")
        admission = admit_by_name(self._dataplane, name.removesuffix(LATEST), caller)
        keep = KeepAlive(self._dataplane.access, admission, fields)
        if route.template == EMBED and fields.get("input") == []:
            return LoadRequest(keep, orjson.dumps({"model": name, "embeddings": []}))
        if route.template in (EMBED, EMBEDDINGS):
            return EmbedRequest(keep, name, fields, route.template)
        interface = require_text_interface(admission, name)
        chat = route.template == CHAT
        if not (fields.items("messages") if chat else fields.text("prompt")):
            return LoadRequest(keep, LineFormat(name, chat=chat).load_response(keep.leaves))
        for field, sentence in REFUSED.items():
            if fields.get(field):
                raise fields.wrong(field, sentence)
        think = fields.get("think")
        if think and not interface.thinks:
            raise fields.wrong("think", f"{name} does not support thinking; see the setting reasoning_format")
        said, prompt, inputs, parameters = (_parse_chat if chat else _parse_completion)(fields, interface)
        inputs = {**inputs, **format_inputs(_format(fields), interface, "format")}
        generation = _generation(fields, interface, parameters)
        if chat or not fields.flag("raw"):
            generation.enable_parsing(
                interface, said, inputs, thoughts=think is not False and said.shows_thoughts
            )
        request = generation.build_request(interface, prompt, inputs)
        streamed = fields.get("stream") is None or fields.flag("stream")
        asked = GeneratedRequest(admission, generation, [request], LineFormat(name, chat=chat), streamed)
        asked.keep = keep
        return asked

    error_object = staticmethod(error_object)

    async def _version(self, *_: object) -> Answer:
        return json_answer({"version": OLLAMA_VERSION})

    async def _tags(self, _: ReadRoute, caller: Caller, __: AsgiScope) -> Answer:
        return json_answer(list_models(self._dataplane, caller))

    async def _running(self, _: ReadRoute, caller: Caller, __: AsgiScope) -> Answer:
        return json_answer(list_models(self._dataplane, caller, running=True))

    async def _show(self, route: ReadRoute, caller: Caller, __: AsgiScope) -> Answer:
        fields = Fields.read(route.body)
        # Older clients send the name in `name`.
        name = (fields.text("model") or fields.text("name") or fields.require_text("model")).removesuffix(
            LATEST
        )
        self._dataplane.access.check(Action.MODEL_METADATA, caller, name)
        version: str | None = None
        try:
            model = describe_model(self._dataplane, name)
        except ModelNotFound:
            name, _, version = name.rpartition(":")
            if not (name and version):
                raise
            model = describe_model(self._dataplane, name, version)
        return json_answer(describe_model_details(name, model))


def _generation(fields: Fields, interface: TextInterface, parameters: dict[str, Any]) -> Generation:
    """Parse the generation options. Raises InvalidRequest naming the invalid one."""
    options = fields.object("options") or Fields({}, "options")
    parameters |= read_sampling(options, OPTIONS) | read_sampling(fields, KNOWN)
    if (penalty := options.number("repeat_penalty", 0)) is not None:
        parameters["repetition_penalty"] = penalty
    logprobs, top = fields.flag("logprobs"), fields.integer("top_logprobs", 0, 20)
    if logprobs:
        expect_logprobs(interface, "logprobs")
    if top:
        if not logprobs:
            raise fields.wrong("top_logprobs", "needs logprobs to be true")
        parameters["top_logprobs"] = top
    limit = options.integer("num_predict", -2)
    if limit == 0:
        raise options.wrong("num_predict", "must not be 0")
    limited = limit if limit is not None and limit > 0 else None  # -1 and -2 mean unlimited
    return Generation(parameters, options.stop_strings(), limited, logprobs)


def _format(fields: Fields) -> Fields | None:
    """Return the output format in the notation of chat completions."""
    format = fields.get("format")
    if format in (None, ""):
        return None
    if format == "json":
        return Fields({"type": "json_object"}, "format")
    if not isinstance(format, dict):
        raise fields.wrong("format", 'must be "json" or a JSON schema')
    return Fields({"type": "json_schema", "json_schema": {"name": "output", "schema": format}}, "format")


ParsedPrompt = tuple[Chat, str | Future[str] | None, Mapping[str, Sequence[str | bytes]], dict[str, Any]]
"""The chat, its prompt, other inputs, and parameters."""


def _parse_chat(fields: Fields, interface: TextInterface) -> ParsedPrompt:
    chat = Chat()
    pending: list[str] = []
    for index, item in enumerate(fields.require_items(chat.field, "messages", MAX_MESSAGES)):
        _add(chat, Fields(item, f"{chat.field}[{index}]"), pending)
    tools: Inputs
    tools, parameters = tool_inputs(interface, fields.items("tools"), None, True)
    chat.continue_answer()
    chat.read_options(fields)
    return chat, interface.render_chat(chat, tools), {**chat.inputs(interface.takes), **tools}, parameters


def _add(chat: Chat, turn: Fields, pending: list[str]) -> None:
    """Add a message. `pending` has the IDs of calls without a result, because results may omit them."""
    role = turn.require_choice("role", ("system", "user", "assistant", "tool"))
    content: Any = turn.text("content") or ""
    if images := _images(chat, turn):
        content = [{"type": "text", "text": content}, *images]
    message: dict[str, Any] = {"role": role, "content": content}
    for index, item in enumerate(turn.items("tool_calls") or ()):
        call = Fields(item, f"{turn.path('tool_calls')}[{index}]")
        function = call.require_object("function")
        arguments = function.require("arguments")
        if not isinstance(arguments, str):
            function.object("arguments")  # checks that it is an object
            arguments = orjson.dumps(arguments).decode()
        pending.append(call.text("id") or f"call_{len(chat.messages)}_{index}")
        named = {"name": function.require_text("name"), "arguments": arguments}
        message.setdefault("tool_calls", []).append(
            {"id": pending[-1], "type": "function", "function": named}
        )
    if role == "tool":
        if pending:
            id = turn.text("tool_call_id")
            message["tool_call_id"] = pending.pop(pending.index(id) if id in pending else 0)
        if (name := turn.text("tool_name")) is not None:
            message["name"] = name
    chat.messages.append(message)
    chat.thought = turn.text("thinking") or ""
    chat.attach_thought()


def _images(chat: Chat, fields: Fields) -> list[dict[str, Any]]:
    """Collect the images of a message and return a placeholder for each."""
    images = fields.items("images") or []
    for index, image in enumerate(images):
        path = f"{fields.path('images')}[{index}]"
        if not isinstance(image, str):
            raise wrong_field(path, "must be base64")
        chat.images.append(base64_bytes(image, path))
    return [{"type": "image"}] * len(images)


def _parse_completion(fields: Fields, interface: TextInterface) -> ParsedPrompt:
    """Parse a prompt as a chat with one message, unless it is raw."""
    chat = Chat("prompt")
    prompt = fields.require_text("prompt")
    content: Any = prompt
    if images := _images(chat, fields):
        content = [{"type": "text", "text": prompt}, *images]
    if (system := fields.text("system")) is not None:
        chat.messages.append({"role": "system", "content": system})
    chat.messages.append({"role": "user", "content": content})
    chat.read_options(fields)
    inputs = chat.inputs(interface.takes)
    add_suffix(fields, interface, inputs)
    if fields.flag("raw"):
        if fields.get("system"):
            raise fields.wrong("system", "is not taken with raw")
        inputs.pop(MESSAGES, None)
        return chat, prompt, inputs, {}
    if interface.takes(MESSAGES):
        return chat, None, inputs, {}
    return chat, interface.render_chat(chat, {}), inputs, {}


class KeepingRequest(ParsedRequest):
    """A request that sets how long its model stays in memory."""

    keep: KeepAlive

    async def open(self) -> Reply:
        await self.keep.apply()
        return await super().open()


class GeneratedRequest(KeepingRequest, TextRequest):
    """A request for generated text."""


class LoadRequest(ParsedRequest):
    """A request without a prompt. It loads or unloads a model without calling it."""

    __slots__ = ("_body", "_keep")

    def __init__(self, keep: KeepAlive, body: bytes) -> None:
        self.admission = keep.admission
        self._keep = keep
        self.operation = Operation.INFER
        self.request = InferenceRequest(inputs=[])
        self._body = body

    async def open(self) -> Reply:
        await self._keep.apply(load=True)
        return Reply(InferenceResponse(model_name=self.admission.model, outputs=[]))

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return [JSON_HEADER], self._body


class EmbedRequest(KeepingRequest, VectorsRequest):
    """A request for the embeddings of several inputs, or of a single input at the older path."""

    __slots__ = ("_one", "_started")

    def __init__(self, keep: KeepAlive, name: str, fields: Fields, path: str) -> None:
        """Parse a request. Raises InvalidRequest naming the invalid field."""
        self._started = perf_counter_ns()
        self.keep = keep
        self._one = path == EMBEDDINGS
        if self._one:
            fields.require_text("prompt")
        known = KNOWN_OF_VECTORS | {"prompt", "keep_alive"} | UNUSED
        super().__init__(keep.admission, name, fields, "prompt" if self._one else "input", known)

    def written(self, responses: Sequence[InferenceResponse]) -> tuple[RawHeaders, bytes]:
        vectors, tokens = self.vectors(responses)
        document: dict[str, Any] = {
            "model": self._name,
            "embeddings": vectors,
            "total_duration": perf_counter_ns() - self._started,
            "load_duration": 0,
            "prompt_eval_count": tokens,
        }
        if self._one:
            document = {"embedding": vectors[0]}
        return [JSON_HEADER], orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
