"""Chat messages: validation, and a plain prompt for models that take no messages."""

import base64
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson

from .fields import Fields, wrong_field
from .inputs import AUDIO, IMAGES, MESSAGES, TEMPLATE_OPTIONS

ROLES = ("developer", "system", "user", "assistant", "tool", "function")
MAX_MESSAGES = 4096
"""Maximum number of messages in a request."""

NO_TEMPLATE = "the model has no chat template that takes them"

THOUGHT = "reasoning_content"
"""Message key for the reasoning."""

NONE: Mapping[str, Any] = MappingProxyType({})

FLAGS = ("enable_thinking", "add_generation_prompt", "continue_final_message")
"""Chat template options that requests may also set as top-level fields."""

OPTIONS = frozenset(
    (TEMPLATE_OPTIONS, *FLAGS, "reasoning_effort", "reasoning", "thinking", "think", "include_reasoning")
)
"""Fields that `Chat.read_options` reads, as in OpenAI, OpenRouter, Anthropic, Ollama and vLLM."""


def has_closed_reasoning(options: Mapping[str, Any]) -> bool:
    """Return whether these options make the output start after the reasoning, regardless of the template."""
    return options.get("enable_thinking") is False or bool(options.get("continue_final_message"))


class Chat:
    """The messages of a request, and the images and audio in them as bytes.

    `field` is the request field that holds the messages.
    """

    def __init__(self, field: str = "messages") -> None:
        self.field = field
        self.messages: list[dict[str, Any]] = []
        self.images: list[bytes] = []
        self.audio: list[bytes] = []
        self.options: dict[str, Any] = {}
        """Variables for the chat template, including the flags that determine how its prompt ends."""
        self.thought = ""
        """Reasoning to attach to the next assistant message."""
        self.shows_thoughts = True
        """Whether the client wants the model's reasoning in the response."""
        self.needs_template = False
        """Whether the client sets template variables, which a model without a template must reject."""

    def inputs(self, takes: Callable[[str], bool]) -> dict[str, Sequence[str | bytes]]:
        """Return the messages, images and audio as model inputs.

        `takes` returns whether the model declares an input. Raises InvalidRequest if the model does not take
        the images, audio or template variables of the request.
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
        """Read the template and reasoning options of a request. Raises InvalidRequest."""
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
            kind = thinking.require_choice("type", ("enabled", "adaptive", "disabled"))
            self.set_thinking({"enabled": True, "disabled": False}.get(kind))
        self.set_thinking(fields.get("think"))
        self.shows_thoughts = not reasoning.flag("exclude") and fields.get("include_reasoning") is not False
        if self.options.get("continue_final_message") and self.options.get("add_generation_prompt"):
            raise fields.wrong("continue_final_message", "needs add_generation_prompt to be false")

    def attach_thought(self) -> None:
        """Attach the pending reasoning to the last message if it is from the assistant, else discard it."""
        thought, self.thought = self.thought, ""
        if thought and (last := self.messages[-1])["role"] == "assistant":
            last[THOUGHT] = last.get(THOUGHT, "") + thought

    def continue_answer(self) -> None:
        """Let the model continue the last message if it is from the assistant."""
        if self.messages and self.messages[-1]["role"] == "assistant":
            self.options["continue_final_message"] = True

    def set_thinking(self, wanted: bool | str | None) -> None:
        """Turn reasoning on or off, or set an OpenAI `reasoning_effort`."""
        if isinstance(wanted, str):
            self.options["reasoning_effort"] = wanted
        if isinstance(wanted, bool) or wanted == "none":
            self.options.setdefault("enable_thinking", wanted is True)

    def add_message(self, item: Any, path: str) -> None:
        """Add the message at `path` of the request. Raises InvalidRequest naming the invalid part."""
        message = Fields(item, path)
        role = message.require_choice("role", ROLES)
        may_be_null = role in ("assistant", "tool", "function")
        content = message.get("content") if may_be_null else message.require("content")
        read = dict(item)
        if content is None and role == "assistant":
            content = message.text("refusal")
        if isinstance(thoughts := item.get("reasoning"), str):  # the key in vLLM and OpenRouter
            read[THOUGHT] = item.get(THOUGHT) or thoughts
        if content is not None:
            read["content"] = self.read_content(content, message.path("content"))
        self.messages.append(read)

    def read_content(self, content: Any, path: str) -> str | list[dict[str, Any]]:
        """Return the content with placeholders for its images and audio, which are collected.

        A list of only text parts is joined to one string. Raises InvalidRequest.
        """
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise wrong_field(path, "must be a string or a list of parts")
        parts = [self._part(Fields(item, f"{path}[{index}]")) for index, item in enumerate(content)]
        if all(part["type"] == "text" for part in parts):
            return "".join(part["text"] for part in parts)
        return parts

    def _part(self, part: Fields) -> dict[str, Any]:
        kind = part.require_text("type")
        if kind in ("text", "input_text", "output_text"):
            return {"type": "text", "text": part.require_text("text")}
        if kind == "refusal":
            return {"type": "text", "text": part.require_text("refusal")}
        if kind in ("image_url", "input_image"):
            self.images.append(_image(part))
            return {"type": "image"}
        if kind == "input_audio":
            sound = part.require_object("input_audio")
            self.audio.append(base64_bytes(sound.require_text("data"), sound.path("data")))
            return {"type": "audio"}
        raise part.wrong("type", f"{kind[:40]!r} is not known; known are texts, images and input_audio")


def read_messages(fields: Fields) -> Chat:
    """Return the messages of a request. Raises InvalidRequest naming the invalid message or part."""
    chat = Chat()
    for index, item in enumerate(fields.require_items(chat.field, "messages", MAX_MESSAGES)):
        chat.add_message(item, f"{chat.field}[{index}]")
    chat.read_options(fields)
    return chat


def _image(part: Fields) -> bytes:
    """Return the bytes of an image in a data URL (RFC 2397). The server fetches no other URLs."""
    value, path = part.require("image_url"), part.path("image_url")
    url = value if isinstance(value, str) else Fields(value, path).require_text("url")
    head, comma, data = url.partition(",")
    if not head.startswith("data:") or not comma:
        raise wrong_field(path, "must be a data URL; the server fetches nothing")
    if not head.endswith(";base64"):
        raise wrong_field(path, "must be a data URL in base64")
    return base64_bytes(data, path)


def base64_bytes(data: str, path: str) -> bytes:
    """Decode the base64 value of a field. Raises InvalidRequest."""
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:
        raise wrong_field(path, "is not valid base64") from None


def build_plain_prompt(
    messages: Sequence[dict[str, Any]], _: str = "", options: Mapping[str, Any] = NONE
) -> str:
    """Build a prompt without a chat template. The text of a single user message is used unchanged.

    Otherwise, the prompt has a line `role: text` for each message, and a final `assistant:` unless the last
    message is continued.
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
