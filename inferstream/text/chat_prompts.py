"""Prompts of chats by a template, which gets each message in the way that it can read."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise, product, takewhile
from typing import Any, NamedTuple

from ..errors import InferstreamError
from .fields import wrong_field

Message = dict[str, Any]

SYSTEM = ("system", "developer")

MARK = "CONTINUED-HERE"
"""Follows the text of a message that the model continues; the prompt ends before it."""

NAME, KEY, VALUE, RESULT = "f_fact", "k_fact", "v_fact", "r_fact"
"""Parts of a call and of its result, by which a template shows what it reads."""

UGLY = ("None", "'type'", f"'{KEY}'", f'\\"{KEY}')
"""Signs that a template has written a Python value, or JSON within JSON."""


class ToolUse(NamedTuple):
    """How a template reads calls and their results."""

    short_ids: bool
    """Whether ids have nine letters and digits, as Mistral's."""
    text: bool
    """Whether arguments are JSON text, and not an object."""
    null: bool
    """Whether the content of a message with calls is null, and not empty."""


class ChatPrompts(ABC):
    """Writes prompts by a template with this source.

    Templates differ in the roles, orders and types that they read. They raise an error for others, or leave them out.
    Short chats show what this template reads, once a request needs to know it.
    """

    def __init__(self, source: str) -> None:
        self._knows_developer = "developer" in source

    @abstractmethod
    def _render(self, messages: Sequence[Message], **variables: Any) -> str:
        """Render the template. Raises an InferstreamError if it cannot, and any other error for a refusal."""

    def write(self, messages: Sequence[Message], field: str = "messages", **options: Any) -> str:
        """The prompt of messages in this field of a request. The options are variables of the template.

        With `continue_final_message`, the prompt ends in the text of the last message. Raises InvalidRequest.
        """
        try:
            return self._continue(messages, **options)
        except InferstreamError:
            raise
        except Exception as error:  # templates raise what they like, and may add text to a null
            reason = " ".join(str(error).split())
            raise wrong_field(field, f"the chat template refuses them: {reason}") from error

    def _continue(
        self, messages: Sequence[Message], continue_final_message: bool = False, **variables: Any
    ) -> str:
        variables.setdefault("add_generation_prompt", not continue_final_message)
        chat = self._prepare(messages)
        if not continue_final_message:
            return self._render(chat, **variables)
        last = chat.pop()
        if last["role"] != "assistant" or last.get("tool_calls"):
            raise ValueError("only a text of the assistant can be continued")
        last = {**last, "content": _joined(last["content"], MARK)}
        prompt, found, _ = self._render([*chat, last], **variables).rpartition(MARK)
        if not found:
            raise ValueError("the last message would be left out")
        return prompt

    def _prepare(self, messages: Sequence[Message]) -> list[Message]:
        chat = [self._message(each) for each in messages]
        if any("tool_calls" in each or each["role"] == "tool" for each in chat):
            chat = [*self._with_tool_use(chat)]
        if any(each["role"] in SYSTEM for each in chat) and self._systems < 2:
            chat = _merge(chat, SYSTEM)
            for index in range(self._systems, len(chat)):
                if chat[index]["role"] in SYSTEM:
                    chat[index] = {**chat[index], "role": "user"}
        if any(one["role"] == other["role"] for one, other in pairwise(chat)) and not self._takes_neighbours:
            chat = _merge(chat, ("user",), ("assistant",))
        return (
            chat
            if self._reads_strings
            else [{**each, "content": _parts(each["content"] or "")} for each in chat]
        )

    def _message(self, message: Message) -> Message:
        role, content = message["role"], message.get("content")
        if role == "developer" and not self._knows_developer:
            message = {**message, "role": "system"}
        elif role == "function":
            message = {"tool_call_id": "call_0", **message, "role": "tool"}
        if not content:
            message = {**message, "content": ""}
        elif not isinstance(content, str) and not self._reads_parts:
            raise ValueError("it takes text only")
        if "tool_calls" in message or "function_call" in message:
            message = {**message}
            calls, call = message.pop("tool_calls", None), message.pop("function_call", None)
            if calls := calls or (call and [{"id": "call_0", "type": "function", "function": call}]):
                message["tool_calls"] = calls
        return message

    def _with_tool_use(self, chat: Sequence[Message]) -> Iterator[Message]:
        """Messages whose calls and results are as the template reads them, and text if it reads none."""
        way, shown = self._tool_use
        names: dict[str, str] = {}
        for message in chat if self._takes_several_calls else _in_turn(chat):
            if calls := message.get("tool_calls"):
                calls = [_call(call, way) for call in calls]
                names |= {call["id"]: call["function"]["name"] for call in calls}
                if NAME not in shown:
                    message = {**message, "content": _joined(message["content"], *map(_written, calls))}
                    del message["tool_calls"]
                elif way.null and message["content"]:
                    yield {"role": "assistant", "content": message["content"]}
                    message = {**message, "content": None, "tool_calls": calls}
                else:
                    message = {
                        **message,
                        "content": None if way.null else message["content"],
                        "tool_calls": calls,
                    }
            elif message["role"] == "tool":
                id = _id(message.get("tool_call_id"), way)
                named = {"name": names[id]} if id in names else {}
                message = {**named, **message, "tool_call_id": id}
                if RESULT not in shown:
                    content = _joined("<tool_response>\n", message["content"], "\n</tool_response>")
                    message = {"role": "user", "content": content}
            yield message

    @cached_property
    def _tool_use(self) -> tuple[ToolUse, str]:
        """How calls and results are read, and a prompt with them."""
        tried = [(way, self._try_tools(way)) for way in map(ToolUse._make, product((False, True), repeat=3))]
        return max(tried, key=lambda each: sum(fact in each[1] for fact in (NAME, VALUE, RESULT)))

    def _try_tools(self, way: ToolUse, count: int = 1) -> str:
        function = {"name": NAME, "arguments": {KEY: VALUE}}
        calls = [_call({"id": f"call_{index}", "function": function}, way) for index in range(count)]
        content = None if way.null else ""
        results = [
            {"role": "tool", "tool_call_id": call["id"], "name": NAME, "content": RESULT} for call in calls
        ]
        answer = {"role": "assistant", "content": content, "tool_calls": calls}
        return self._try([{"role": "user", "content": "q"}, answer, *results])

    @cached_property
    def _takes_several_calls(self) -> bool:
        way, shown = self._tool_use
        return shown.count(NAME) != 1 or self._try_tools(way, 2).count(NAME) > 1

    @cached_property
    def _systems(self) -> int:
        """How many system messages are read; 2 stands for any number, anywhere."""
        if self._reads("system", "system", "user", "system", "assistant", "user"):
            return 2
        return int(self._reads("system", "user"))

    @cached_property
    def _takes_neighbours(self) -> bool:
        return self._reads("user", "user", "assistant", "assistant", "user")

    @cached_property
    def _reads_parts(self) -> bool:
        return self._reads("user", parts=True)

    @cached_property
    def _reads_strings(self) -> bool:
        return self._reads("user", parts=False) or not self._reads_parts

    def _reads(self, *roles: str, parts: bool | None = None) -> bool:
        """Whether a prompt has the texts of all messages with these roles."""
        parts = not self._reads_strings if parts is None else parts
        texts = [f"fact-{index}" for index in range(len(roles))]
        contents = map(_parts, texts) if parts else texts
        prompt = self._try(
            [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]
        )
        return all(text in prompt for text in texts)

    def _try(self, chat: list[Message]) -> str:
        """A prompt; empty if the template refuses the messages, or does not write them as text."""
        try:
            prompt = self._render(chat, add_generation_prompt=True)
        except InferstreamError:
            raise
        except Exception:  # templates raise what they like
            return ""
        return "" if any(sign in prompt for sign in UGLY) else prompt


def _merge(chat: Sequence[Message], *alike: Sequence[str]) -> list[Message]:
    """Messages of which no neighbours have roles that are alike, unless one calls tools."""
    merged: list[Message] = []
    for each in chat:
        last = merged[-1] if merged else each
        if (
            merged
            and not last.get("tool_calls")
            and any({last["role"], each["role"]} <= {*roles} for roles in alike)
        ):
            between = "\n\n" if last["content"] and each["content"] else ""
            merged[-1] = {**each, **last, "content": _joined(last["content"], between, each["content"] or "")}
        else:
            merged.append(each)
    return merged


def _in_turn(chat: Sequence[Message]) -> Iterator[Message]:
    """Messages with a call each, which its result follows."""
    moved: set[int] = set()
    for index, message in enumerate(chat):
        calls = message.get("tool_calls") or ()
        if len(calls) < 2:
            if index not in moved:
                yield message
            continue
        behind = takewhile(lambda each: each[1]["role"] == "tool", enumerate(chat[index + 1 :], index + 1))
        results = {each.get("tool_call_id"): at for at, each in behind}
        for call in calls:
            yield {**message, "tool_calls": [call]}
            message = {"role": "assistant", "content": ""}
            if (at := results.get(call.get("id"))) is not None:
                moved.add(at)
                yield chat[at]


def _call(call: Message, way: ToolUse) -> Message:
    function = call.get("function") or call
    arguments = function.get("arguments") or {}
    if way.text and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    elif not way.text and isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # a call that was cut off stays text
            arguments = json.loads(arguments) or {}
    return {**call, "id": _id(call.get("id"), way), "function": {**function, "arguments": arguments}}


def _id(id: Any, way: ToolUse) -> str:
    return blake2b(str(id).encode(), digest_size=5).hexdigest()[:9] if way.short_ids else str(id or "")


def _written(call: Message) -> str:
    """A call as text, for a template that knows none."""
    return f"\n<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"


def _joined(*contents: str | list[Any]) -> str | list[Any]:
    texts = [each for each in contents if isinstance(each, str)]
    return (
        "".join(texts)
        if len(texts) == len(contents)
        else [part for each in contents if each for part in _parts(each)]
    )


def _parts(content: str | list[Any]) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
