"""Items, tools and formats of a request for a response, in the form that chat completions have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from .....text.chat import MOST_MESSAGES, Chat, custom_call
from .....text.fields import Fields, wrong_field

INPUT = "input"

PREVIOUS = "previous_response_id"

CALLS = ("function_call", "custom_tool_call")
"""Items that are calls of tools of the client."""


class ToolName(NamedTuple):
    """The name of a tool within its namespace, for a function that is offered instead of it."""

    name: str
    namespace: str | None
    is_custom: bool
    """Whether the tool takes text, and not JSON."""


Recall = Callable[[str], Any]
"""An item of an earlier response by its id; None for one that is not known."""


def read_input(fields: Fields, previous: Sequence[Any], recall: Recall) -> Chat:
    """The instructions, the conversation so far and the input as chat messages.

    Raises InvalidRequest that names the wrong item or part.
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
    most = max(MOST_MESSAGES - len(previous), 0)
    for index, item in enumerate(fields.needed_items(INPUT, "messages", most)):
        _read(chat, Fields(item, f"{INPUT}[{index}]"), f"{INPUT}[{index}]", recall)
    return chat


def _read(chat: Chat, item: Fields, path: str, recall: Recall) -> None:
    kind = item.text("type") or "message"
    if kind == "message":
        chat.read({"role": item.get("role"), "content": item.get("content")}, path)
    elif kind == "item_reference":
        if (known := recall(item.needed_text("id"))) is None:
            raise item.wrong("id", "the item is not known, or not any longer; send the item itself")
        _read(chat, Fields(known, path), path, recall)
    elif kind in CALLS or (kind.endswith("_call") and item.get("call_id") is not None):
        last = chat.messages[-1] if chat.messages else None
        if last is None or last["role"] != "assistant":
            last = {"role": "assistant", "content": None}
            chat.messages.append(last)
        last.setdefault("tool_calls", []).append(_call(item, kind))
    elif kind.endswith("_output"):
        output = item.needed("tools" if kind == "tool_search_output" else "output")
        is_content = isinstance(output, str) or kind.removesuffix("_output") in CALLS
        content = chat.content(output, item.path("output")) if is_content else orjson.dumps(output).decode()
        chat.messages.append(
            {"role": "tool", "tool_call_id": item.needed_text("call_id"), "content": content}
        )
    elif kind != "reasoning" and not kind.endswith("_call") and not kind.startswith("mcp_"):
        kinds = "message, item_reference, and calls and their outputs"
        raise item.wrong("type", f"{kind[:40]!r} is not known; known are {kinds}")


def _call(item: Fields, kind: str) -> dict[str, Any]:
    """A call of a client's tool, in the form of chat completions. Tools of OpenAI have the name of their type."""
    id = item.needed_text("call_id")
    if kind == "custom_tool_call":
        return custom_call(
            id, _flat(item.text("namespace"), item.needed_text("name")), item.needed_text("input")
        )
    if kind == "function_call":
        name, arguments = (
            _flat(item.text("namespace"), item.needed_text("name")),
            item.needed_text("arguments"),
        )
    else:
        asked = item.get("action") or item.get("operation") or item.get("arguments") or {}
        name, arguments = kind.removesuffix("_call"), orjson.dumps(asked).decode()
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _flat(namespace: str | None, name: str) -> str:
    """The name of a tool as a model sees it, which knows no namespaces."""
    return f"{namespace.removesuffix('__')}__{name}" if namespace else name


def read_functions(fields: Fields) -> tuple[list[dict[str, Any]], Mapping[str, ToolName]]:
    """The tools of a request as functions, and what those are that clients know by another name or type.

    Tools that OpenAI runs are left out, and those of its clients that have no schema.
    """
    functions: list[dict[str, Any]] = []
    names: dict[str, ToolName] = {}
    for index, item in enumerate(fields.items("tools") or ()):
        tool, namespace = Fields(item, f"tools[{index}]"), None
        inner = [tool]
        if tool.needed_text("type") == "namespace":
            namespace = tool.needed_text("name")
            path = tool.path("tools")
            inner = [Fields(each, f"{path}[{at}]") for at, each in enumerate(tool.items("tools") or ())]
        for each in inner:
            kind = each.needed_text("type")
            if kind not in ("function", "custom"):
                continue
            name = each.needed_text("name")
            function = _function(each)
            if namespace is not None or kind == "custom":
                function["function"]["name"] = _flat(namespace, name)
                names[function["function"]["name"]] = ToolName(name, namespace, kind == "custom")
            functions.append(function)
    return functions, names


def _function(tool: Fields) -> dict[str, Any]:
    name = tool.needed_text("name")
    if tool.needed_text("type") == "custom":
        format = tool.object("format")
        grammar = None if format is None else format.text("definition")
        described = [*filter(None, (tool.text("description"), grammar))]
        schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
        function = {"name": name, "description": "\n".join(described), "parameters": schema}
    else:
        function = {each: tool.get(each) for each in tool.names() if each != "type"}
    return {"type": "function", "function": function}


def read_choice(fields: Fields) -> Any:
    """The choice among the tools."""
    choice = fields.get("tool_choice")
    if choice is None or isinstance(choice, str):
        return choice
    chosen = Fields(choice, "tool_choice")
    kind = chosen.needed_text("type")
    if kind in ("function", "custom"):
        name = _flat(chosen.text("namespace"), chosen.needed_text("name"))
        return {"type": "function", "function": {"name": name}}
    if kind == "allowed_tools":
        tools = chosen.items("tools") or []
        names = [Fields(tool, f"tool_choice.tools[{index}]") for index, tool in enumerate(tools)]
        return {
            "type": kind,
            kind: {"mode": chosen.get("mode"), "tools": [_function(tool) for tool in names]},
        }
    raise chosen.wrong("type", f"{kind[:40]!r} is not taken; known are function, custom and allowed_tools")


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
