"""Converts the input items, tools and formats of the Responses API to the chat completions format."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from ..chat import MAX_MESSAGES, Chat
from ..fields import Fields, wrong_field
from ..tools import to_nested_form

INPUT = "input"

PREVIOUS = "previous_response_id"

CALLS = ("function_call", "custom_tool_call")
"""Items that are calls of client tools."""

TOOLS = ("function", "custom")
"""Types of client tools."""


class Tool(NamedTuple):
    """The namespace and name of a client tool. The input of a custom tool is free text."""

    namespace: str
    name: str
    custom: bool = False


Names = Mapping[str, Tool]
"""Client tools by the name that the model sees.

Only tools whose names differ, or that the model sees as functions, are included.
"""

Recall = Callable[[str], Any]
"""A function that returns an item of an earlier response by its ID, or None."""


def read_input(fields: Fields, previous: Sequence[Any], recall: Recall) -> Chat:
    """Return the instructions, the conversation so far and the input as chat messages.

    Raises InvalidRequest naming the invalid item or part.
    """
    chat = Chat(INPUT)
    if (instructions := fields.text("instructions")) is not None:
        chat.messages.append({"role": "system", "content": instructions})
    for item in previous:
        _read(chat, Fields(item, PREVIOUS), PREVIOUS, recall)
    if isinstance(text := fields.get(INPUT), str):
        chat.messages.append({"role": "user", "content": text})
        return chat
    if text is not None and not isinstance(text, list):
        raise fields.wrong(INPUT, "must be a string or a list of items")
    most = max(MAX_MESSAGES - len(previous), 0)
    for index, item in enumerate(fields.require_items(INPUT, "messages", most)):
        _read(chat, Fields(item, f"{INPUT}[{index}]"), f"{INPUT}[{index}]", recall)
    return chat


def _read(chat: Chat, item: Fields, path: str, recall: Recall) -> None:
    kind = item.text("type") or "message"
    if kind == "message":
        chat.add_message({"role": item.get("role"), "content": item.get("content")}, path)
        chat.attach_thought()
    elif kind == "item_reference":
        if (known := recall(item.require_text("id"))) is None:
            raise item.wrong(
                "id",
                "is not known: only the process that made it remembers it, for a while; send the item itself",
            )
        _read(chat, Fields(known, path), path, recall)
    elif kind in CALLS:
        last = chat.messages[-1] if chat.messages else None
        if last is None or last["role"] != "assistant":
            last = {"role": "assistant", "content": None}
            chat.messages.append(last)
        name = _prefix_namespace(item.text("namespace"), item.require_text("name"))
        if kind == "function_call":
            arguments = item.require_text("arguments")
        else:
            arguments = orjson.dumps({"input": item.require_text("input")}).decode()
        chat.attach_thought()
        call = {"id": item.require_text("call_id"), "type": "function"}
        last.setdefault("tool_calls", []).append({**call, "function": {"name": name, "arguments": arguments}})
    elif kind.removesuffix("_output") in CALLS:
        content = chat.read_content(item.require("output"), item.path("output"))
        chat.messages.append(
            {"role": "tool", "tool_call_id": item.require_text("call_id"), "content": content}
        )
    elif kind == "reasoning":
        parts = item.items("content") or item.items("summary") or ()
        chat.thought += "\n".join(Fields(part, path).text("text") or "" for part in parts)
    elif not kind.endswith(("_call", "_call_output")) and not kind.startswith("mcp_"):
        kinds = "message, item_reference, and calls and their outputs"
        raise item.wrong("type", f"{kind[:40]!r} is not known; known are {kinds}")


def _prefix_namespace(namespace: str | None, name: str) -> str:
    """Return the function name for the model. The namespace becomes a prefix."""
    return f"{namespace.removesuffix('__')}__{name}" if namespace else name


def read_functions(fields: Fields) -> tuple[list[dict[str, Any]], Names]:
    """Return the client tools as functions, and those that the client names or calls differently.

    Hosted tools, such as web search, are ignored, because Codex sends them to every server.
    """
    functions: list[dict[str, Any]] = []
    names: dict[str, Tool] = {}
    for index, item in enumerate(fields.items("tools") or ()):
        tool = Fields(item, fields.path(f"tools[{index}]"))
        if (kind := tool.require_text("type")) == "function":
            tool.require_text("name")
            functions.append(to_nested_form(item))
        elif kind == "custom":
            functions.append(_custom(tool))
            name = tool.require_text("name")
            names[name] = Tool("", name, custom=True)
        elif kind == "namespace":
            namespace = tool.require_text("name")
            inner, custom = read_functions(
                Fields({"tools": tool.get("tools")}, fields.path(f"tools[{index}]"))
            )
            for each in inner:
                name = each["function"]["name"]
                each["function"]["name"] = _prefix_namespace(namespace, name)
                names[each["function"]["name"]] = Tool(namespace, name, name in custom)
            functions += inner
    return functions, names


def _custom(tool: Fields) -> dict[str, Any]:
    """Describe a custom tool as a function with one string argument, with its grammar in the description."""
    described = tool.text("description") or ""
    format = tool.object("format")
    if format is not None and format.choice("type", ("text", "grammar")) == "grammar":
        syntax = format.require_choice("syntax", ("lark", "regex"))
        described += f"\n\nThe input has this grammar ({syntax}):\n{format.require_text('definition')}"
    parameters = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    function = {"name": tool.require_text("name"), "description": described.strip(), "parameters": parameters}
    return {"type": "function", "function": function}


def read_free_text(arguments: str) -> str:
    """Return the input of a custom tool call: the argument `input`, otherwise the unparsed arguments."""
    try:
        read = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    text = read.get("input") if isinstance(read, dict) else None
    return text if isinstance(text, str) else arguments


def read_choice(fields: Fields) -> Any:
    """Return the tool choice in the format of chat completions. Raises InvalidRequest."""
    choice = fields.get("tool_choice")
    if choice is None or isinstance(choice, str):
        return choice
    chosen = Fields(choice, "tool_choice")
    kind = chosen.require_text("type")
    if kind in TOOLS:
        name = _prefix_namespace(chosen.text("namespace"), chosen.require_text("name"))
        return {"type": "function", "function": {"name": name}}
    if kind == "allowed_tools":
        allowed = [
            {**tool, "type": "function"} if isinstance(tool, dict) and tool.get("type") in TOOLS else tool
            for tool in chosen.items("tools") or ()
        ]
        return {"type": kind, kind: {"mode": chosen.get("mode"), "tools": allowed}}
    raise chosen.wrong("type", f"{kind[:40]!r} is not taken; known are function, custom and allowed_tools")


def read_format(fields: Fields) -> Fields | None:
    """Return the output format in the notation of chat completions. Raises InvalidRequest."""
    text = fields.object("text")
    format = None if text is None else text.object("format")
    if format is None or format.text("type") != "json_schema":
        return format
    format.require_text("name")
    format.require_object("schema")  # checks that it is an object
    schema = {name: format.get(name) for name in format.names() if name != "type"}
    return Fields({"type": "json_schema", "json_schema": schema}, "text.format")


def read_metadata(fields: Fields) -> dict[str, str]:
    """Return the metadata to echo in the response."""
    metadata = fields.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise wrong_field("metadata", "must be an object of strings")
    return metadata
