"""Chat messages: checked, and made a prompt for models that take no messages."""

import base64
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson

from .fields import Fields, wrong_field
from .inputs import AUDIO, IMAGES, MESSAGES, TEMPLATE_OPTIONS

ROLES = ("developer", "system", "user", "assistant", "tool", "function")
MOST_MESSAGES = 4096
"""Messages of one request at most."""

NO_TEMPLATE = "the model has no chat template that takes them"

THOUGHT = "reasoning_content"
"""The key of a message for its reasoning."""

NONE: Mapping[str, Any] = MappingProxyType({})

FLAGS = ("enable_thinking", "add_generation_prompt", "continue_final_message")
"""Options of a chat template that requests may also name in fields of their own."""

OPTIONS = frozenset(
    (TEMPLATE_OPTIONS, *FLAGS, "reasoning_effort", "reasoning", "thinking", "think", "include_reasoning")
)
"""Fields of a request that `Chat.read_options` reads, as OpenAI, OpenRouter, Anthropic, Ollama and vLLM have them."""


def has_closed_reasoning(options: Mapping[str, Any]) -> bool:
    """Whether an answer begins behind its reasoning, whatever the template opens without these options."""
    return options.get("enable_thinking") is False or bool(options.get("continue_final_message"))


class Chat:
    """The messages of one request, with the images and sounds that they hold as bytes.

    `field` is the field of the request that holds the messages.
    """

    def __init__(self, field: str = "messages") -> None:
        self.field = field
        self.messages: list[dict[str, Any]] = []
        self.images: list[bytes] = []
        self.audio: list[bytes] = []
        self.options: dict[str, Any] = {}
        """Variables for the chat template, and what its prompt ends with."""
        self.thought = ""
        """Reasoning that belongs to the next message of the assistant."""
        self.shows_thoughts = True
        """Whether the client wants to see the reasoning of the answer."""
        self.needs_template = False
        """Whether the client names variables, which no model ignores."""

    def inputs(self, takes: Callable[[str], bool]) -> dict[str, Sequence[str | bytes]]:
        """The messages, images and sounds as inputs of a model, where `takes` says which inputs it declares.

        Raises InvalidRequest for images or sounds that it does not take.
        """
        inputs: dict[str, Sequence[str | bytes]] = {}
        if takes(MESSAGES):
            inputs[MESSAGES] = [orjson.dumps(self.messages).decode()]
            if self.options and takes(TEMPLATE_OPTIONS):
                inputs[TEMPLATE_OPTIONS] = [orjson.dumps(self.options).decode()]
            elif self.needs_template:
                raise wrong_field(TEMPLATE_OPTIONS, NO_TEMPLATE)
        for name, values in ((IMAGES, self.images), (AUDIO, self.audio)):
            if values:
                if not takes(name):
                    raise wrong_field(self.field, f"the model takes no {name}")
                inputs[name] = values
        return inputs

    def read_options(self, fields: Fields) -> None:
        """Read what a request asks of the chat template. Raises InvalidRequest."""
        named = fields.object(TEMPLATE_OPTIONS)
        if named is not None:
            self.options |= {name: named.get(name) for name in named.names()}
            self.needs_template = True
        self.options |= {name: fields.flag(name) for name in FLAGS if fields.get(name) is not None}
        self.set_thinking(fields.text("reasoning_effort"))
        reasoning = fields.object("reasoning") or Fields({}, "reasoning")
        if reasoning.get("max_tokens") is not None:
            raise reasoning.wrong("max_tokens", "is not taken; only the whole text has a limit")
        self.set_thinking(reasoning.text("effort"))
        if "enabled" in reasoning.names():
            self.set_thinking(reasoning.flag("enabled"))
        if (thinking := fields.object("thinking")) is not None:
            kind = thinking.needed_choice("type", ("enabled", "adaptive", "disabled"))
            self.set_thinking({"enabled": True, "disabled": False}.get(kind))
        self.set_thinking(fields.get("think"))
        self.shows_thoughts = not reasoning.flag("exclude") and fields.get("include_reasoning") is not False
        if self.options.get("continue_final_message") and self.options.get("add_generation_prompt"):
            raise fields.wrong("continue_final_message", "needs add_generation_prompt to be false")

    def place_thought(self) -> None:
        """Give the reasoning to the last message; that of a user ends it."""
        thought, self.thought = self.thought, ""
        if thought and (last := self.messages[-1])["role"] == "assistant":
            last[THOUGHT] = last.get(THOUGHT, "") + thought

    def continue_answer(self) -> None:
        """Let the model continue the last message if the assistant has begun it."""
        if self.messages and self.messages[-1]["role"] == "assistant":
            self.options["continue_final_message"] = True

    def set_thinking(self, wanted: bool | str | None) -> None:
        """Set whether the model thinks, or how much in the words of OpenAI."""
        if isinstance(wanted, str):
            self.options["reasoning_effort"] = wanted
        if isinstance(wanted, bool) or wanted == "none":
            self.options.setdefault("enable_thinking", wanted is True)

    def read(self, item: Any, path: str) -> None:
        """Add the message at `path` of the request. Raises InvalidRequest that names what is wrong in it."""
        message = Fields(item, path)
        role = message.needed_choice("role", ROLES)
        may_be_null = role in ("assistant", "tool", "function")
        content = message.get("content") if may_be_null else message.needed("content")
        read = dict(item)
        if content is None and role == "assistant":
            content = message.text("refusal")
        if isinstance(thoughts := item.get("reasoning"), str):  # its name at vLLM and OpenRouter
            read[THOUGHT] = item.get(THOUGHT) or thoughts
        if content is not None:
            read["content"] = self.content(content, message.path("content"))
        self.messages.append(read)

    def content(self, content: Any, path: str) -> str | list[dict[str, Any]]:
        """A content without its images and sounds, which are added; the text alone where all parts are texts."""
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise wrong_field(path, "must be a string or a list of parts")
        parts = [self._part(Fields(item, f"{path}[{index}]")) for index, item in enumerate(content)]
        if all(part["type"] == "text" for part in parts):
            return "".join(part["text"] for part in parts)
        return parts

    def _part(self, part: Fields) -> dict[str, Any]:
        kind = part.needed_text("type")
        if kind in ("text", "input_text", "output_text"):
            return {"type": "text", "text": part.needed_text("text")}
        if kind == "refusal":
            return {"type": "text", "text": part.needed_text("refusal")}
        if kind in ("image_url", "input_image"):
            self.images.append(_image(part))
            return {"type": "image"}
        if kind == "input_audio":
            sound = part.needed_object("input_audio")
            self.audio.append(base64_bytes(sound.needed_text("data"), sound.path("data")))
            return {"type": "audio"}
        raise part.wrong("type", f"{kind[:40]!r} is not known; known are texts, images and input_audio")


def read_messages(fields: Fields) -> Chat:
    """The messages of a request. Raises InvalidRequest that names the wrong message or part."""
    chat = Chat()
    for index, item in enumerate(fields.needed_items(chat.field, "messages", MOST_MESSAGES)):
        chat.read(item, f"{chat.field}[{index}]")
    chat.read_options(fields)
    return chat


def _image(part: Fields) -> bytes:
    """The bytes of an image in a data URL (RFC 2397). The server fetches nothing."""
    value, path = part.needed("image_url"), part.path("image_url")
    url = value if isinstance(value, str) else Fields(value, path).needed_text("url")
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma:
        raise wrong_field(path, "must be a data URL; the server fetches nothing")
    if not head.endswith(";base64"):
        raise wrong_field(path, "must be a data URL in base64")
    return base64_bytes(data, path)


def base64_bytes(data: str, path: str) -> bytes:
    """The bytes of base64 in a field. Raises InvalidRequest."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise wrong_field(path, "is not valid base64") from None


def plain_prompt(messages: Sequence[dict[str, Any]], _: str = "", options: Mapping[str, Any] = NONE) -> str:
    """A prompt in the plain template: the text of a single message of a user as it is, else a line for each message.

    The lines are `role: text`, and the last one is `assistant:`, unless the last message is continued.
    """
    if len(messages) == 1 and messages[0]["role"] == "user":
        return _text(messages[0])
    lines = [f"{message['role']}: {_text(message)}" for message in messages]
    opened = options.get("add_generation_prompt", not options.get("continue_final_message"))
    return "\n".join([*lines, "assistant:"] if opened else lines)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
