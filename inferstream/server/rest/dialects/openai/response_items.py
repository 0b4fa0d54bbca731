"""Items, tools and formats of a request for a response, in the form that chat completions have."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from .....text.chat import MOST_MESSAGES, Chat
from .....text.fields import Fields, wrong_field
from .....text.tools import nested

INPUT = "input"

PREVIOUS = "previous_response_id"

CALLS = ("function_call", "custom_tool_call")
"""Items that are calls of tools of the client."""

TOOLS = ("function", "custom")
"""Tools of the client."""


class Tool(NamedTuple):
    """A tool under the name that the client uses. The input of a custom tool is free text."""

    namespace: str
    name: str
    custom: bool = False


Names = Mapping[str, Tool]
"""The tools that the model knows by other names, or as functions although they are none."""

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
        chat.place_thought()
    elif kind == "item_reference":
        if (known := recall(item.needed_text("id"))) is None:
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
        name = _flat(item.text("namespace"), item.needed_text("name"))
        if kind == "function_call":
            arguments = item.needed_text("arguments")
        else:
            arguments = orjson.dumps({"input": item.needed_text("input")}).decode()
        chat.place_thought()
        call = {"id": item.needed_text("call_id"), "type": "function"}
        last.setdefault("tool_calls", []).append({**call, "function": {"name": name, "arguments": arguments}})
    elif kind.removesuffix("_output") in CALLS:
        content = chat.content(item.needed("output"), item.path("output"))
        chat.messages.append(
            {"role": "tool", "tool_call_id": item.needed_text("call_id"), "content": content}
        )
    elif kind == "reasoning":
        parts = item.items("content") or item.items("summary") or ()
        chat.thought += "\n".join(Fields(part, path).text("text") or "" for part in parts)
    elif not kind.endswith(("_call", "_call_output")) and not kind.startswith("mcp_"):
        kinds = "message, item_reference, and calls and their outputs"
        raise item.wrong("type", f"{kind[:40]!r} is not known; known are {kinds}")


def _flat(namespace: str | None, name: str) -> str:
    """The name of a function as a model knows it, which has no namespaces."""
    return f"{namespace.removesuffix('__')}__{name}" if namespace else name


def read_functions(fields: Fields) -> tuple[list[dict[str, Any]], Names]:
    """Return the tools that the client runs as functions, and how the client names them.

    Hosted tools, such as web search, are ignored: Codex sends them to every server.
    """
    functions: list[dict[str, Any]] = []
    names: dict[str, Tool] = {}
    for index, item in enumerate(fields.items("tools") or ()):
        tool = Fields(item, fields.path(f"tools[{index}]"))
        if (kind := tool.needed_text("type")) == "function":
            tool.needed_text("name")
            functions.append(nested(item))
        elif kind == "custom":
            functions.append(_custom(tool))
            name = tool.needed_text("name")
            names[name] = Tool("", name, custom=True)
        elif kind == "namespace":
            namespace = tool.needed_text("name")
            inner, custom = read_functions(
                Fields({"tools": tool.get("tools")}, fields.path(f"tools[{index}]"))
            )
            for each in inner:
                name = each["function"]["name"]
                each["function"]["name"] = _flat(namespace, name)
                names[each["function"]["name"]] = Tool(namespace, name, name in custom)
            functions += inner
    return functions, names


def _custom(tool: Fields) -> dict[str, Any]:
    """Describe a custom tool as a function with one string argument, with its grammar in the description."""
    described = tool.text("description") or ""
    format = tool.object("format")
    if format is not None and format.choice("type", ("text", "grammar")) == "grammar":
        syntax = format.needed_choice("syntax", ("lark", "regex"))
        described += f"\n\nThe input has this grammar ({syntax}):\n{format.needed_text('definition')}"
    parameters = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    function = {"name": tool.needed_text("name"), "description": described.strip(), "parameters": parameters}
    return {"type": "function", "function": function}


def free_text(arguments: str) -> str:
    """Return the input of a custom tool call: the argument `input`, or the raw output if it is not such JSON."""
    try:
        read = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    text = read.get("input") if isinstance(read, dict) else None
    return text if isinstance(text, str) else arguments


def read_choice(fields: Fields) -> Any:
    """The choice among the tools."""
    choice = fields.get("tool_choice")
    if choice is None or isinstance(choice, str):
        return choice
    chosen = Fields(choice, "tool_choice")
    kind = chosen.needed_text("type")
    if kind in TOOLS:
        name = _flat(chosen.text("namespace"), chosen.needed_text("name"))
        return {"type": "function", "function": {"name": name}}
    if kind == "allowed_tools":
        allowed = [
            {**tool, "type": "function"} if isinstance(tool, dict) and tool.get("type") in TOOLS else tool
            for tool in chosen.items("tools") or ()
        ]
        return {"type": kind, kind: {"mode": chosen.get("mode"), "tools": allowed}}
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
