"""Tool calls: what a client offers, and the pieces that a model yields."""

from collections.abc import Sequence
from typing import Any

import orjson

from .fields import Fields
from .inputs import RESPONSE_FORMAT, TOOLS
from .interface import TextInterface


def read_tools(
    fields: Fields, interface: TextInterface
) -> tuple[dict[str, list[str | bytes]], dict[str, Any]]:
    """Inputs and parameters of the tools and of the response format that a client asks for.

    Raises InvalidRequest that names the field, if it is wrong or the model declares no input of this name.
    """
    inputs: dict[str, list[str | bytes]] = {}
    parameters: dict[str, Any] = {}
    tools, choice = fields.items("tools"), fields.get("tool_choice")
    if tools and choice != "none":
        for index, tool in enumerate(tools):
            Fields(tool, f"tools[{index}]").needed_text("type")
        if not interface.takes(TOOLS):
            raise fields.wrong("tools", "the model calls no tools")
        inputs[TOOLS] = [orjson.dumps(tools).decode()]
        if choice is not None:
            parameters["tool_choice"] = choice if isinstance(choice, str) else orjson.dumps(choice).decode()
    format = fields.object("response_format")
    kind = None if format is None else format.choice("type", ("text", "json_object", "json_schema"))
    if kind not in (None, "text"):
        if not interface.takes(RESPONSE_FORMAT):
            raise fields.wrong("response_format", f"the model does not write {kind}")
        inputs[RESPONSE_FORMAT] = [orjson.dumps(fields.get("response_format")).decode()]
    return inputs, parameters


def merged(pieces: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Whole tool calls of the pieces of a stream: pieces of one index belong together, their arguments are joined."""
    calls: dict[int, dict[str, Any]] = {}
    for piece in pieces:
        index = int(piece.get("index", len(calls)))
        call = calls.setdefault(
            index, {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        )
        if piece.get("id"):
            call["id"] = piece["id"]
        function = piece.get("function") or {}
        if function.get("name"):
            call["function"]["name"] = function["name"]
        call["function"]["arguments"] += function.get("arguments") or ""
    return [calls[index] for index in sorted(calls)]
