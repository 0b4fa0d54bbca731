"""Prompts rendered by a chat template, with messages adapted to the formats that it supports."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from itertools import combinations
from typing import Any

from inferstream.errors import InferstreamError

from .chat import NONE
from .fields import wrong_field

Message = dict[str, Any]
Repairs = frozenset[str]

CALL = {"id": "call_0", "type": "function", "function": {"name": "fact", "arguments": '{"key": "fact"}'}}

SAMPLES: dict[str, Message] = {
    **{role: {"role": role, "content": "fact"} for role in ("system", "user", "assistant")},
    "image": {"role": "user", "content": [{"type": "text", "text": "fact"}, {"type": "image"}]},
    "calls": {"role": "assistant", "content": "fact", "tool_calls": [CALL]},
    "thoughts": {"role": "assistant", "content": "fact", "thinking": "fact", "tool_calls": [CALL]},
    "tool": {"role": "tool", "tool_call_id": "call_0", "name": "f", "content": "fact"},
}
"""Sample messages for finding out which roles and fields a template renders."""

PROBES = (
    ("user", ("parts",)),
    ("image", ("images",)),
    ("user user assistant assistant user", ("alternate",)),
    ("system user", ("no_system",)),
    ("system system user assistant system user", ("one_system",)),
    ("user calls tool assistant user", ("short_ids", "text_arguments", "split_calls")),
    ("user thoughts tool assistant user", ("only_thoughts",)),
)
"""Sample chats, each with the repairs that may let a template render all of its messages.

- `parts` makes each content a list.
- `images` keeps lists that contain images.
- `alternate` joins consecutive messages of one role.
- `no_system` turns system messages into user messages.
- `one_system` joins the system messages at the start and turns all later ones into user messages.
- `short_ids` makes call IDs of nine letters and digits, as in Mistral templates.
- `text_arguments` passes the arguments of calls as JSON strings instead of objects.
- `split_calls` splits text and calls into two messages, the second with null content.
- `only_thoughts` moves the text next to calls into the reasoning, if any.
"""

THOUGHTS = ("reasoning_content", "thinking", "reasoning")
"""Keys for the reasoning of a message in clients and templates."""

UGLY = ("{'type'", "'key'", '\\"key')
"""Substrings that show that a template rendered a Python value, or JSON within JSON."""

MARK = "CONTINUED-HERE"
"""Marker appended to a message that the model continues. The prompt is cut at the marker."""


class ChatPrompts(ABC):
    """Renders prompts with the template `source`.

    Templates differ in the roles, orders and types that they support. They skip other messages or
    raise an error.
    """

    def __init__(self, source: str) -> None:
        self._knows_developer = "'developer'" in source or '"developer"' in source

    @abstractmethod
    def _render(self, messages: Sequence[Message], variables: Mapping[str, Any]) -> str:
        """Render the template. Raises an InferstreamError, or any other error if it rejects the chat."""

    def write(
        self, messages: Sequence[Message], field: str = "messages", options: Mapping[str, Any] = NONE
    ) -> str:
        """Return the prompt for the messages in the request field `field`. `options` are template variables.

        With `continue_final_message`, the prompt ends within the last message. Raises InvalidRequest.
        """
        variables = {**options}
        continues = variables.pop("continue_final_message", False)
        variables.setdefault("add_generation_prompt", not continues)
        try:
            if not continues:
                return self._render(self._prepare(messages, self._repairs), variables)
            *before, last = messages
            if last["role"] != "assistant" or last.get("tool_calls"):
                raise ValueError("only text of the assistant can be continued")
            marked = {**last, "content": _join_contents(last.get("content") or "", MARK)}
            chat = self._prepare([*before, marked], self._repairs)
            prompt, mark, _ = self._render(chat, variables).rpartition(MARK)
            if not mark:
                raise ValueError("the last message would be left out")
            return prompt
        except InferstreamError:
            raise
        except Exception as error:  # templates raise any exception, or fail on a null
            reason = " ".join(str(error).split())
            raise wrong_field(field, f"the chat template refuses them: {reason}") from error

    @cached_property
    def _repairs(self) -> Repairs:
        """The repairs that this template needs, determined once by rendering the probes."""
        repairs: Repairs = frozenset()
        for roles, names in PROBES:
            tried = [
                repairs.union(some) for count in range(len(names) + 1) for some in combinations(names, count)
            ]
            repairs = max(tried, key=lambda each: self._count_facts(roles.split(), each))
        return repairs

    def _count_facts(self, roles: Sequence[str], repairs: Repairs) -> int:
        """Render a sample chat and count the word `fact`. Returns 0 if the template rejects the chat.

        A prompt with Python or nested JSON syntax also counts as 0.
        """
        try:
            chat = self._prepare([SAMPLES[role] for role in roles], repairs)
            prompt = self._render(chat, {"add_generation_prompt": True})
        except InferstreamError:
            raise
        except Exception:
            return 0
        return 0 if any(sign in prompt for sign in UGLY) else prompt.count("fact")

    def _prepare(self, messages: Sequence[Message], repairs: Repairs) -> list[Message]:
        """Return the messages with roles and order adapted to the template."""
        if repairs.isdisjoint(("parts", "no_system")) and _do_roles_alternate(messages):
            return [*messages]
        chat: list[Message] = []
        for each in [part for message in messages for part in self._adapt(message, repairs)]:
            last, role = chat[-1] if chat else None, each["role"]
            is_first = last["role"] == "system" if last else len(messages) > 1
            if role == "system" and ("no_system" in repairs or ("one_system" in repairs and not is_first)):
                role = "user"
            joins = "one_system" in repairs if role == "system" else "alternate" in repairs and role != "tool"
            if last is not None and joins and last["role"] == role and "tool_calls" not in last:
                between = "\n\n" if last["content"] and each["content"] else ""
                content = _join_contents(last["content"], between, each["content"] or "")
                chat[-1] = {**each, **last, "content": content}
            else:
                chat.append({**each, "role": role})
        return chat

    def _adapt(self, message: Message, repairs: Repairs) -> Sequence[Message]:
        """Adapt one message to the template. Returns two if it cannot render text next to calls."""
        role, content = message["role"], message.get("content") or ""
        if not isinstance(content, str):
            texts = [part if isinstance(part, str) else part.get("text") for part in content]
            if None in texts and "images" not in repairs:
                raise ValueError("it takes text only")
            content = content if None in texts else "".join(texts)
        content = _to_parts(content) if "parts" in repairs else content
        if role == "developer" and not (
            self._knows_developer and repairs.isdisjoint(("no_system", "one_system"))
        ):
            role = "system"
        elif role == "function":
            role = "tool"
        thought = next((each for name in THOUGHTS if isinstance(each := message.get(name), str) and each), "")
        read = {**message, "role": role, "content": content}
        read |= dict.fromkeys(THOUGHTS, thought) if thought and role == "assistant" else {}
        calls, call = read.pop("tool_calls", None), read.pop("function_call", None)
        if role == "tool":
            read["tool_call_id"] = _id(read.get("tool_call_id"), repairs)
        if not calls and not call:
            return [read]
        read["tool_calls"] = [
            _call(each, repairs) for each in calls or [{"type": "function", "function": call}]
        ]
        if "only_thoughts" in repairs and thought and content:
            return [{**read, "content": "", "thinking": f"{thought}\n\n{content}"}]
        if "split_calls" not in repairs:
            return [read]
        text = [{"role": role, "content": content}] if content else []
        return [*text, {**read, "content": None}]


def _do_roles_alternate(messages: Sequence[Message]) -> bool:
    """Return whether all contents are strings and the roles alternate, which every template supports."""
    roles = [each["role"] for each in messages if len(each) == 2 and type(each.get("content")) is str]
    turns = roles[1:] if roles[:1] == ["system"] else roles
    return len(roles) == len(messages) and {*turns[::2]} == {"user"} and {*turns[1::2]} <= {"assistant"}


def _call(call: Message, repairs: Repairs) -> Message:
    function = call.get("function") or call
    arguments = function.get("arguments") or {}
    if "text_arguments" not in repairs and isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # a truncated call stays a string
            arguments = json.loads(arguments) or {}
    elif "text_arguments" in repairs and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {**call, "id": _id(call.get("id"), repairs), "function": {**function, "arguments": arguments}}


def _id(id: Any, repairs: Repairs) -> str:
    id = str(id or "call_0")
    return blake2b(id.encode(), digest_size=5).hexdigest()[:9] if "short_ids" in repairs else id


def _join_contents(*contents: str | list[Any]) -> str | list[Any]:
    texts = [each for each in contents if isinstance(each, str)]
    if len(texts) == len(contents):
        return "".join(texts)
    return [part for each in contents if each for part in _to_parts(each)]


def _to_parts(content: str | list[Any]) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
