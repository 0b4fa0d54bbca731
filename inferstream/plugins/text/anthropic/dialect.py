"""The Anthropic dialect: its routes, and the parsing of its requests."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from inferstream.errors import Code, InferstreamError, InvalidRequest, Unsupported, own_status
from inferstream.ext.calls import Admission, Caller, Operation, Reply, request_id_var
from inferstream.ext.http import (
    JSON_HEADER,
    OBJECTS,
    Answer,
    Exchange,
    GatheringRequest,
    ParsedRequest,
    RawHeaders,
    Route,
    describe_post,
    status_of,
)
from inferstream.types import InferenceRequest, InferenceResponse, Parameters

from ..chat import MAX_MESSAGES, OPTIONS, THOUGHT, Chat, base64_bytes
from ..context_length import read_overflow
from ..fields import Fields, wrong_field
from ..generation import Generation, read_sampling
from ..interface import TextInterface
from ..reader import TextReader
from ..response_format import format_inputs
from ..schemas import COUNT, STRING, object_schema
from ..text_dialect import TextDialect, TextRequest, admit_by_name, ensure_id, require_text_interface
from ..text_models import find_text_interface
from ..tools import tool_inputs
from .events import MessageFormat, error_object

EMPTY = {"type": "text", "text": ""}

MESSAGES_PATH, COUNT_PATH = "/v1/messages", "/v1/messages/count_tokens"

REQUEST_ID = b"request-id"
"""The response header from which Anthropic clients read the request ID."""

MAX_COUNTED = 16
"""Maximum number of responses to read while waiting for the model's token count."""

IGNORED = frozenset(("redacted_thinking", "server_tool_use", "mcp_tool_use", "container_upload"))
"""Block types of earlier turns that are omitted from the chat."""

TEXTUAL = ("search_result", "tool_reference", "compaction")
"""Block types that become text. The results of tools that run on other servers also become text."""

TEXTS = frozenset(("title", "text", "content", "stdout", "stderr", "tool_name"))
"""Keys whose values are text in such blocks."""

BILLING = "x-anthropic-billing-header:"
"""Start of a line that is removed from Claude Code prompts.

The line differs in every request and would defeat prefix caching.
"""

CHOICES = {"auto": "auto", "any": "required", "none": "none"}
"""Tool choices that name no tool, and their equivalents in chat completions."""

UNUSED = frozenset(
    ("metadata", "cache_control", "service_tier", "inference_geo", "speed", "user_profile_id", "workspace_id")
)
"""Fields that only label requests or tune performance."""

KNOWN = UNUSED.union(
    ("model", "messages", "system", "max_tokens", "stream", "stop_sequences", "tools", "tool_choice"),
    ("output_config", "context_management"),
    OPTIONS,
)
"""Fields that never become parameters of the model request."""

STATUSES = {Code.UNSUPPORTED: 400, Code.OVERLOADED: 529}
"""HTTP statuses of error codes for which Anthropic differs from the server."""


class Anthropic(TextDialect):
    """The Anthropic Messages API, including token counting."""

    name = "anthropic"
    title = "Anthropic"
    inferences = dict.fromkeys((MESSAGES_PATH, COUNT_PATH), Operation.STREAM)

    def described(self) -> Mapping[str, Any]:
        fields = {"model": STRING, "messages": OBJECTS}
        example = {"model": "model", "messages": [{"role": "user", "content": "text"}]}
        whole = object_schema(("model", "messages", "max_tokens"), **fields, max_tokens=COUNT)
        return {
            MESSAGES_PATH: describe_post("Anthropic's messages", whole, {**example, "max_tokens": 100}),
            COUNT_PATH: describe_post(
                "The number of tokens of messages", object_schema((*fields,), **fields), example, None
            ),
        }

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        fields = Fields.read(body)
        name = fields.require_text("model")
        admission = admit_by_name(self._dataplane, name, caller)
        interface = require_text_interface(admission, name)
        if route.template == COUNT_PATH:
            generation, request = read_generation(fields, interface, 1)
            return TokenCount(admission, generation, request, ensure_id([request]))
        fields.require("max_tokens")
        generation, request = read_generation(fields, interface, fields.integer("max_tokens", 1))
        id = ensure_id([request])
        format = MessageFormat(id, name)
        asked = MessageRequest(admission, generation, [request], format, fields.flag("stream"))
        asked.headers = _request_id_header(id)
        return asked

    error_object = staticmethod(error_object)

    def error_status(self, error: InferstreamError) -> int:
        return own_status(error) or STATUSES.get(error.code) or status_of(error).http

    def error(self, error: InferstreamError) -> Answer:
        status, headers, body = super().error(error)
        return status, [*headers, *_request_id_header("")], body


def _request_id_header(id: str) -> RawHeaders:
    """Return the request ID header with the X-Request-Id of the request, else `id`. Empty without either."""
    value = request_id_var.get() or id
    return [(REQUEST_ID, value.encode())] if value else []


def read_generation(
    fields: Fields, interface: TextInterface, limit: int | None
) -> tuple[Generation, InferenceRequest]:
    """Parse the messages and options of a request. Raises InvalidRequest naming the invalid field."""
    if fields.get("thread") is not None:
        raise fields.wrong("thread", "is not taken; send all messages")
    chat = read_messages(fields)
    management = fields.object("context_management") or Fields({})
    for item in management.items("edits") or ():
        edit = Fields(item, "context_management.edits")
        if not edit.require_text("type").startswith("clear_thinking"):
            raise wrong_field("context_management.edits", "the server edits no messages")
        if edit.get("keep") != "all":
            kept = (edit.object("keep") or Fields({})).integer("value", 1) or 1
            for message in [message for message in chat.messages if THOUGHT in message][:-kept]:
                del message[THOUGHT]
    tools, choice = _tools(fields), fields.object("tool_choice")
    parallel = choice is None or not choice.flag("disable_parallel_tool_use")
    inputs, parameters = tool_inputs(interface, tools, None if choice is None else _choice(choice), parallel)
    config = fields.object("output_config") or Fields({})
    if (format := config.object("format")) is not None:
        format.require_object("schema")  # checks that it is an object
    inputs |= format_inputs(format, interface, "output_config.format")
    parameters |= read_sampling(fields, KNOWN)
    generation = Generation(parameters, fields.stop_strings("stop_sequences"), limit)
    thinking = fields.object("thinking") or Fields({"type": "disabled"}, "thinking")
    shown = thinking.get("type") != "disabled" and thinking.get("display") != "omitted"
    generation.enable_parsing(interface, chat, inputs, thoughts=shown and chat.shows_thoughts)
    prompt = interface.render_chat(chat, inputs)
    return generation, generation.build_request(interface, prompt, {**chat.inputs(interface.takes), **inputs})


def read_messages(fields: Fields) -> Chat:
    """Return the system prompt and the turns as chat messages. Raises InvalidRequest for an invalid block."""
    chat = Chat()
    if (system := fields.get("system")) is not None and (text := _plain(system, "system")):
        chat.messages.append({"role": "system", "content": text})
    for index, item in enumerate(fields.require_items(chat.field, "messages", MAX_MESSAGES)):
        turn = Fields(item, f"{chat.field}[{index}]")
        role = turn.require_choice("role", ("user", "assistant", "system"))
        content = turn.require("content")
        if isinstance(content, str):
            chat.messages.append({"role": role, "content": content})
        else:
            _add_blocks(chat, role, _blocks(content, turn.path("content")))
    chat.read_options(fields)
    chat.continue_answer()
    chat.set_thinking((fields.object("output_config") or Fields({})).text("effort"))
    return chat


def _blocks(content: Any, path: str) -> list[Fields]:
    if not isinstance(content, list):
        raise wrong_field(path, "must be a string or a list of blocks")
    return [Fields(block, f"{path}[{index}]") for index, block in enumerate(content)]


def _plain(content: Any, path: str) -> str:
    """Return the text of content. Raises InvalidRequest if it has blocks other than text."""
    blocks = [] if isinstance(content, str) else _blocks(content, path)
    for block in blocks:
        block.choice("type", ("text",))
    texts = [content] if isinstance(content, str) else [block.require_text("text") for block in blocks]
    return "".join(text.partition("\n")[2] if text.startswith(BILLING) else text for text in texts)


def _add_blocks(chat: Chat, role: str, blocks: list[Fields]) -> None:
    """Add the messages of one turn. Each tool result becomes a separate message before the text."""
    parts: list[dict[str, Any]] = []
    message: dict[str, Any] = {"role": role, "content": None}
    chat.thought = ""
    for block in blocks:
        kind = block.require_text("type")
        if kind == "tool_result":
            chat.messages.append(_result(chat, block))
        elif kind == "tool_use":
            message.setdefault("tool_calls", []).append(_call(block))
        elif kind == "thinking":
            chat.thought += block.text("thinking") or ""
        elif kind not in IGNORED and (part := _part(chat, block, kind)) != EMPTY:
            parts.append(part)
    if parts or "tool_calls" in message:
        message["content"] = _join_parts(parts) if parts else None
        chat.messages.append(message)
        chat.attach_thought()


def _join_parts(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Join the parts to one string if all of them are text."""
    return "".join(part["text"] for part in parts) if all("text" in part for part in parts) else parts


def _texts(value: Any) -> Iterator[str]:
    """Yield all text strings in a block, in order."""
    for each in value if isinstance(value, list) else ():
        yield from _texts(each)
    for name, each in value.items() if isinstance(value, dict) else ():
        if isinstance(each, str) and (name in TEXTS or (name == "data" and value.get("type") == "text")):
            yield each
        yield from _texts(each)


def _part(chat: Chat, block: Fields, kind: str) -> dict[str, Any]:
    if kind == "text":
        return {"type": "text", "text": block.require_text("text")}
    if kind in TEXTUAL or kind.endswith("_tool_result"):
        return {"type": "text", "text": "\n".join(_texts({name: block.get(name) for name in block.names()}))}
    if kind not in ("image", "document"):
        known = "text, image, document, tool_use, tool_result and thinking"
        raise block.wrong("type", f"{kind[:40]!r} is not taken; known are {known}")
    source = block.require_object("source")
    if kind == "document":
        if source.choice("type", ("text", "content")) == "content":
            return {"type": "text", "text": _plain(source.require("content"), source.path("content"))}
        return {"type": "text", "text": source.require_text("data")}
    if source.require_text("type") != "base64":
        raise source.wrong("type", "must be base64; the server fetches nothing")
    chat.images.append(base64_bytes(source.require_text("data"), source.path("data")))
    return {"type": "image"}


def _result(chat: Chat, block: Fields) -> dict[str, Any]:
    content, path = block.get("content"), block.path("content")
    if content is not None and not isinstance(content, str):
        blocks = _blocks(content, path)
        content = _join_parts([_part(chat, each, each.require_text("type")) for each in blocks])
    return {"role": "tool", "tool_call_id": block.require_text("tool_use_id"), "content": content or ""}


def _call(block: Fields) -> dict[str, Any]:
    block.require_object("input")  # checks that it is an object
    arguments = orjson.dumps(block.get("input")).decode()
    function = {"name": block.require_text("name"), "arguments": arguments}
    return {"id": block.require_text("id"), "type": "function", "function": function}


def _tools(fields: Fields) -> list[dict[str, Any]]:
    """Return the tools in the format of chat completions."""
    tools = []
    for index, item in enumerate(fields.items("tools") or ()):
        tool = Fields(item, f"tools[{index}]")
        kind = tool.text("type")
        if kind is not None and kind.startswith("tool_search_tool"):
            continue  # the model receives all tools
        if kind not in (None, "custom"):
            taken = "the server has no tools of its own, only those of the client"
            raise tool.wrong("type", f"{str(kind)[:40]!r} is not taken; {taken}")
        tool.object("input_schema")  # checks that it is an object
        function = {"name": tool.require_text("name"), "parameters": tool.get("input_schema") or {}}
        if (description := tool.text("description")) is not None:
            function["description"] = description
        tools.append({"type": "function", "function": function})
    return tools


def _choice(choice: Fields) -> Any:
    """Return the tool choice in the format of chat completions."""
    kind = choice.require_choice("type", (*CHOICES, "tool"))
    if kind == "tool":
        return {"type": "function", "function": {"name": choice.require_text("name")}}
    return CHOICES[kind]


class MessageRequest(TextRequest):
    """A request for a message."""

    __slots__ = ("headers",)


class TokenCount(GatheringRequest):
    """Counts input tokens: generates one token and returns the model's number of prompt tokens."""

    __slots__ = ("_reader", "headers", "pending")

    def __init__(
        self, admission: Admission, generation: Generation, request: InferenceRequest, id: str
    ) -> None:
        self.admission = admission
        self.request = request
        self.pending = generation.pending
        interface = find_text_interface(admission)
        streams = interface is not None and interface.streams
        self.operation = Operation.STREAM if streams else Operation.INFER
        self._reader = TextReader()
        self.headers = _request_id_header(id)

    async def open(self) -> Reply:
        try:
            return await super().open()
        except InvalidRequest as error:
            if (overflow := read_overflow(error)) is None:
                raise
            told = Parameters.of({"prompt_tokens": overflow[0]})  # counting has no limit
            return Reply(InferenceResponse.of(self.admission.model, [], None, None, told))

    def add(self, response: InferenceResponse) -> bool:
        """Read a response. Returns False if the count is available, or after `MAX_COUNTED` responses."""
        response.accept(self._reader)
        return self._reader.prompt_tokens is None and self._reader.tokens < MAX_COUNTED

    def end(self) -> tuple[RawHeaders, bytes]:
        """Return the response. Raises Unsupported if the model does not report the count."""
        tokens = self._reader.prompt_tokens
        if tokens is None:
            raise Unsupported("The model does not say how many tokens it has read.")
        return [JSON_HEADER], orjson.dumps({"input_tokens": tokens})
