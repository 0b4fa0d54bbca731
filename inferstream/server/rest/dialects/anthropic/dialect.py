"""The paths of Anthropic's dialect, and how their requests are read."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

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

from .....errors import Code, InferstreamError, InvalidRequest, Unsupported, own_status
from .....text.chat import MOST_MESSAGES, OPTIONS, THOUGHT, Chat, base64_bytes
from .....text.context_length import read_overflow
from .....text.fields import Fields, wrong_field
from .....text.generation import Generation, sampling
from .....text.interface import TextInterface
from .....text.reader import TextReader
from .....text.response_format import formatted
from .....text.schemas import COUNT, STRING, an_object
from .....text.tools import offered
from .....types import InferenceRequest, InferenceResponse, Parameters
from ..text import TextDialect, TextRequest, admit_named, generating, identified
from ..text_models import text_of
from .events import MessageFormat, error_object

EMPTY = {"type": "text", "text": ""}

MESSAGES_PATH, COUNT_PATH = "/v1/messages", "/v1/messages/count_tokens"

REQUEST_ID = b"request-id"
"""The header in which Anthropic's clients look for the id of their request."""

MOST_COUNTED = 16
"""Responses after which a model that has not said how many tokens it has read is not asked any longer."""

IGNORED = frozenset(("redacted_thinking", "server_tool_use", "mcp_tool_use", "container_upload"))
"""Blocks of earlier turns that are no part of a chat."""

TEXTUAL = ("search_result", "tool_reference", "compaction")
"""Blocks of which a chat has the text, as of the results of tools that other servers run."""

TEXTS = frozenset(("title", "text", "content", "stdout", "stderr", "tool_name"))
"""Where their text is."""

BILLING = "x-anthropic-billing-header:"
"""How Claude Code begins a text that differs in each request, so that no prefix of prompts would be the same."""

CHOICES = {"auto": "auto", "any": "required", "none": "none"}
"""Choices among the tools that name none, in the words of chat completions."""

UNUSED = frozenset(
    ("metadata", "cache_control", "service_tier", "inference_geo", "speed", "user_profile_id", "workspace_id")
)
"""Fields that only label requests or tune performance."""

KNOWN = UNUSED.union(
    ("model", "messages", "system", "max_tokens", "stream", "stop_sequences", "tools", "tool_choice"),
    ("output_config", "context_management"),
    OPTIONS,
)
"""Fields that never become parameters of the request to the model."""

STATUSES = {Code.UNSUPPORTED: 400, Code.OVERLOADED: 529}
"""Statuses that Anthropic has a number of its own for."""


class Anthropic(TextDialect):
    """Messages, and the number of tokens of messages."""

    name = "anthropic"
    title = "Anthropic"
    inferences = dict.fromkeys((MESSAGES_PATH, COUNT_PATH), Operation.STREAM)

    def described(self) -> Mapping[str, Any]:
        fields = {"model": STRING, "messages": OBJECTS}
        example = {"model": "model", "messages": [{"role": "user", "content": "text"}]}
        whole = an_object(("model", "messages", "max_tokens"), **fields, max_tokens=COUNT)
        return {
            MESSAGES_PATH: describe_post("Anthropic's messages", whole, {**example, "max_tokens": 100}),
            COUNT_PATH: describe_post(
                "The number of tokens of messages", an_object((*fields,), **fields), example, None
            ),
        }

    def parse(
        self, exchange: Exchange, body: bytes, route: Route, caller: Caller, admission: Admission | None
    ) -> ParsedRequest:
        fields = Fields.read(body)
        name = fields.needed_text("model")
        admission = admit_named(self._dataplane, name, caller)
        interface = generating(admission, name)
        if route.template == COUNT_PATH:
            generation, request = read_generation(fields, interface, 1)
            return TokenCount(admission, generation, request, identified([request]))
        fields.needed("max_tokens")
        generation, request = read_generation(fields, interface, fields.integer("max_tokens", 1))
        id = identified([request])
        format = MessageFormat(id, name)
        asked = MessageRequest(admission, generation, [request], format, fields.flag("stream"))
        asked.headers = _named(id)
        return asked

    error_object = staticmethod(error_object)

    def error_status(self, error: InferstreamError) -> int:
        return own_status(error) or STATUSES.get(error.code) or status_of(error).http

    def error(self, error: InferstreamError) -> Answer:
        status, headers, body = super().error(error)
        return status, [*headers, *_named("")], body


def _named(id: str) -> RawHeaders:
    """The header with the X-Request-Id of the request, else with `id`; none without either."""
    value = request_id_var.get() or id
    return [(REQUEST_ID, value.encode())] if value else []


def read_generation(
    fields: Fields, interface: TextInterface, limit: int | None
) -> tuple[Generation, InferenceRequest]:
    """What is asked of the model. Raises InvalidRequest that names the wrong field."""
    if fields.get("thread") is not None:
        raise fields.wrong("thread", "is not taken; send all messages")
    chat = read_messages(fields)
    management = fields.object("context_management") or Fields({})
    for item in management.items("edits") or ():
        edit = Fields(item, "context_management.edits")
        if not edit.needed_text("type").startswith("clear_thinking"):
            raise wrong_field("context_management.edits", "the server edits no messages")
        if edit.get("keep") != "all":
            kept = (edit.object("keep") or Fields({})).integer("value", 1) or 1
            for message in [message for message in chat.messages if THOUGHT in message][:-kept]:
                del message[THOUGHT]
    tools, choice = _tools(fields), fields.object("tool_choice")
    parallel = choice is None or not choice.flag("disable_parallel_tool_use")
    inputs, parameters = offered(interface, tools, None if choice is None else _choice(choice), parallel)
    config = fields.object("output_config") or Fields({})
    if (format := config.object("format")) is not None:
        format.needed_object("schema")  # refuses what is no object
    inputs |= formatted(format, interface, "output_config.format")
    parameters |= sampling(fields, KNOWN)
    generation = Generation(parameters, fields.stop("stop_sequences"), limit)
    thinking = fields.object("thinking") or Fields({"type": "disabled"}, "thinking")
    shown = thinking.get("type") != "disabled" and thinking.get("display") != "omitted"
    generation.parse(interface, chat, inputs, thoughts=shown and chat.shows_thoughts)
    prompt = interface.chat_prompt(chat, inputs)
    return generation, generation.request(interface, prompt, {**chat.inputs(interface.takes), **inputs})


def read_messages(fields: Fields) -> Chat:
    """The system prompt and the turns as chat messages. Raises InvalidRequest that names the wrong block."""
    chat = Chat()
    if (system := fields.get("system")) is not None and (text := _plain(system, "system")):
        chat.messages.append({"role": "system", "content": text})
    for index, item in enumerate(fields.needed_items(chat.field, "messages", MOST_MESSAGES)):
        turn = Fields(item, f"{chat.field}[{index}]")
        role = turn.needed_choice("role", ("user", "assistant", "system"))
        content = turn.needed("content")
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
    """The text of a content in which there are no other blocks."""
    blocks = [] if isinstance(content, str) else _blocks(content, path)
    for block in blocks:
        block.choice("type", ("text",))
    texts = [content] if isinstance(content, str) else [block.needed_text("text") for block in blocks]
    return "".join(text.partition("\n")[2] if text.startswith(BILLING) else text for text in texts)


def _add_blocks(chat: Chat, role: str, blocks: list[Fields]) -> None:
    """Add the messages that one turn is: a result of a tool is a message of its own, before what is said to it."""
    parts: list[dict[str, Any]] = []
    message: dict[str, Any] = {"role": role, "content": None}
    chat.thought = ""
    for block in blocks:
        kind = block.needed_text("type")
        if kind == "tool_result":
            chat.messages.append(_result(chat, block))
        elif kind == "tool_use":
            message.setdefault("tool_calls", []).append(_call(block))
        elif kind == "thinking":
            chat.thought += block.text("thinking") or ""
        elif kind not in IGNORED and (part := _part(chat, block, kind)) != EMPTY:
            parts.append(part)
    if parts or "tool_calls" in message:
        message["content"] = _joined(parts) if parts else None
        chat.messages.append(message)
        chat.place_thought()


def _joined(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """The text alone where all parts are texts."""
    return "".join(part["text"] for part in parts) if all("text" in part for part in parts) else parts


def _texts(value: Any) -> Iterator[str]:
    """The texts within a block, in their order."""
    for each in value if isinstance(value, list) else ():
        yield from _texts(each)
    for name, each in value.items() if isinstance(value, dict) else ():
        if isinstance(each, str) and (name in TEXTS or (name == "data" and value.get("type") == "text")):
            yield each
        yield from _texts(each)


def _part(chat: Chat, block: Fields, kind: str) -> dict[str, Any]:
    if kind == "text":
        return {"type": "text", "text": block.needed_text("text")}
    if kind in TEXTUAL or kind.endswith("_tool_result"):
        return {"type": "text", "text": "\n".join(_texts({name: block.get(name) for name in block.names()}))}
    if kind not in ("image", "document"):
        known = "text, image, document, tool_use, tool_result and thinking"
        raise block.wrong("type", f"{kind[:40]!r} is not taken; known are {known}")
    source = block.needed_object("source")
    if kind == "document":
        if source.choice("type", ("text", "content")) == "content":
            return {"type": "text", "text": _plain(source.needed("content"), source.path("content"))}
        return {"type": "text", "text": source.needed_text("data")}
    if source.needed_text("type") != "base64":
        raise source.wrong("type", "must be base64; the server fetches nothing")
    chat.images.append(base64_bytes(source.needed_text("data"), source.path("data")))
    return {"type": "image"}


def _result(chat: Chat, block: Fields) -> dict[str, Any]:
    content, path = block.get("content"), block.path("content")
    if content is not None and not isinstance(content, str):
        blocks = _blocks(content, path)
        content = _joined([_part(chat, each, each.needed_text("type")) for each in blocks])
    return {"role": "tool", "tool_call_id": block.needed_text("tool_use_id"), "content": content or ""}


def _call(block: Fields) -> dict[str, Any]:
    block.needed_object("input")  # refuses what is no object
    arguments = orjson.dumps(block.get("input")).decode()
    function = {"name": block.needed_text("name"), "arguments": arguments}
    return {"id": block.needed_text("id"), "type": "function", "function": function}


def _tools(fields: Fields) -> list[dict[str, Any]]:
    """The tools in the form of chat completions."""
    tools = []
    for index, item in enumerate(fields.items("tools") or ()):
        tool = Fields(item, f"tools[{index}]")
        kind = tool.text("type")
        if kind is not None and kind.startswith("tool_search_tool"):
            continue  # the model gets all tools
        if kind not in (None, "custom"):
            taken = "the server has no tools of its own, only those of the client"
            raise tool.wrong("type", f"{str(kind)[:40]!r} is not taken; {taken}")
        tool.object("input_schema")  # refuses what is no object
        function = {"name": tool.needed_text("name"), "parameters": tool.get("input_schema") or {}}
        if (description := tool.text("description")) is not None:
            function["description"] = description
        tools.append({"type": "function", "function": function})
    return tools


def _choice(choice: Fields) -> Any:
    """The choice among the tools in the form of chat completions."""
    kind = choice.needed_choice("type", (*CHOICES, "tool"))
    if kind == "tool":
        return {"type": "function", "function": {"name": choice.needed_text("name")}}
    return CHOICES[kind]


class MessageRequest(TextRequest):
    """A request for a message."""

    __slots__ = ("headers",)


class TokenCount(GatheringRequest):
    """The number of tokens that a model reads: what it says of them while it writes one token."""

    __slots__ = ("_reader", "headers", "pending")

    def __init__(
        self, admission: Admission, generation: Generation, request: InferenceRequest, id: str
    ) -> None:
        self.admission = admission
        self.request = request
        self.pending = generation.pending
        interface = text_of(admission)
        streams = interface is not None and interface.streams
        self.operation = Operation.STREAM if streams else Operation.INFER
        self._reader = TextReader()
        self.headers = _named(id)

    async def open(self) -> Reply:
        try:
            return await super().open()
        except InvalidRequest as error:
            if (overflow := read_overflow(error)) is None:
                raise
            told = Parameters.of({"prompt_tokens": overflow[0]})  # a count has no limit
            return Reply(InferenceResponse.of(self.admission.model, [], None, None, told))

    def add(self, response: InferenceResponse) -> bool:
        """Read a response. False once the number is known, or the model does not tell it."""
        response.accept(self._reader)
        return self._reader.prompt_tokens is None and self._reader.tokens < MOST_COUNTED

    def end(self) -> tuple[RawHeaders, bytes]:
        """The response. Raises Unsupported for a model that does not tell the number."""
        tokens = self._reader.prompt_tokens
        if tokens is None:
            raise Unsupported("The model does not say how many tokens it has read.")
        return [JSON_HEADER], orjson.dumps({"input_tokens": tokens})
