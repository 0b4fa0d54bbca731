"""Items, tools and formats of a request for a response, in the form that chat completions have."""

from collections.abc import Sequence
from typing import Any

from .....text.chat import MOST_MESSAGES, Chat
from .....text.fields import Fields, wrong_field

INPUT = "input"

PREVIOUS = "previous_response_id"


def read_input(fields: Fields, previous: Sequence[Any] = ()) -> Chat:
    """The instructions, the conversation so far and the input as chat messages.

    Raises InvalidRequest that names the wrong item or part.
    """
    chat = Chat(INPUT)
    if (instructions := fields.text("instructions")) is not None:
        chat.messages.append({"role": "system", "content": instructions})
    for item in previous:
        _read(chat, Fields(item, PREVIOUS), PREVIOUS)
    if isinstance(text := fields.get(INPUT), str):
        chat.messages.append({"role": "user", "content": text})
        return chat
    if text is not None and not isinstance(text, list):
        raise fields.wrong(INPUT, "must be a string or a list of items")
    most = max(MOST_MESSAGES - len(previous), 0)
    for index, item in enumerate(fields.needed_items(INPUT, "messages", most)):
        _read(chat, Fields(item, f"{INPUT}[{index}]"), f"{INPUT}[{index}]")
    return chat


def _read(chat: Chat, item: Fields, path: str) -> None:
    kind = item.text("type")
    if kind in (None, "message"):
        chat.read({"role": item.get("role"), "content": item.get("content")}, path)
    elif kind == "function_call":
        function = {"name": item.needed_text("name"), "arguments": item.needed_text("arguments")}
        call = {"id": item.needed_text("call_id"), "type": "function", "function": function}
        last = chat.messages[-1] if chat.messages else None
        if last is None or last["role"] != "assistant":
            last = {"role": "assistant", "content": None}
            chat.messages.append(last)
        last.setdefault("tool_calls", []).append(call)
    elif kind == "function_call_output":
        content = chat.content(item.needed("output"), item.path("output"))
        chat.messages.append(
            {"role": "tool", "tool_call_id": item.needed_text("call_id"), "content": content}
        )
    elif kind == "item_reference":
        raise item.wrong("type", "items are not stored; send the item itself")
    elif kind != "reasoning":  # what a model thought is no part of a chat
        known = "message, function_call and function_call_output"
        raise item.wrong("type", f"{str(kind)[:40]!r} is not known; known are {known}")


def read_functions(fields: Fields) -> list[dict[str, Any]]:
    """The tools of a request."""
    return [
        _function(Fields(tool, f"tools[{index}]")) for index, tool in enumerate(fields.items("tools") or ())
    ]


def _function(tool: Fields) -> dict[str, Any]:
    if (kind := tool.needed_text("type")) != "function":
        raise tool.wrong(
            "type", f"{kind[:40]!r} is not taken; the server has no tools of its own, only function"
        )
    tool.needed_text("name")
    function = {name: tool.get(name) for name in tool.names() if name != "type"}
    return {"type": "function", "function": function}


def read_choice(fields: Fields) -> Any:
    """The choice among the tools."""
    choice = fields.get("tool_choice")
    if choice is None or isinstance(choice, str):
        return choice
    chosen = Fields(choice, "tool_choice")
    kind = chosen.needed_text("type")
    if kind == "function":
        return {"type": kind, kind: {"name": chosen.needed_text("name")}}
    if kind == "allowed_tools":
        tools = chosen.items("tools") or []
        names = [Fields(tool, f"tool_choice.tools[{index}]") for index, tool in enumerate(tools)]
        return {
            "type": kind,
            kind: {"mode": chosen.get("mode"), "tools": [_function(tool) for tool in names]},
        }
    raise chosen.wrong("type", f"{kind[:40]!r} is not taken; known are function and allowed_tools")


def read_format(fields: Fields) -> Fields | None:
    """The format of the text."""
    text = fields.object("text")
    format = None if text is None else text.object("format")
    if format is None or format.text("type") != "json_schema":
        return format
    format.needed_text("name")
    format.needed_object("schema")  # refuses what is no object
    schema = {name: format.get(name) for name in format.names() if name != "type"}
    return Fields({"type": "json_schema", "json_schema": schema}, "text.format")


def read_metadata(fields: Fields) -> dict[str, str]:
    """What the client wants to find in the response again."""
    metadata = fields.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise wrong_field("metadata", "must be an object of strings")
    return metadata
