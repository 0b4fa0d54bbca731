"""Tool calls: the tools of a request, and the calls in the model's output."""

from collections.abc import Sequence
from typing import Any

import orjson

from inferstream.errors import InvalidOutput

from .fields import Fields, wrong_field
from .inputs import TOOLS
from .interface import TextInterface
from .response_format import Inputs, read_response_format

CHOICES = ("none", "auto", "required")


def read_tools(fields: Fields, interface: TextInterface) -> tuple[Inputs, dict[str, Any]]:
    """Return the inputs and parameters for the tools and the response format of a chat request.

    Raises InvalidRequest naming the field if it is invalid or the model declares no such input.
    """
    if fields.get("functions") is not None:
        raise fields.wrong("functions", "is not taken; use tools")
    choice, parallel = fields.get("tool_choice"), read_parallel(fields)
    inputs, parameters = tool_inputs(interface, fields.items("tools"), choice, parallel)
    return inputs | read_response_format(fields, interface), parameters


def read_parallel(fields: Fields) -> bool:
    """Return whether the client allows several calls at once, which is the default."""
    return fields.get("parallel_tool_calls") is None or fields.flag("parallel_tool_calls")


def tool_inputs(
    interface: TextInterface, tools: list[Any] | None, choice: Any, parallel: bool
) -> tuple[Inputs, dict[str, Any]]:
    """Return the inputs and parameters for tools and a tool choice, each in the nested or the flat format."""
    tools, choice = [to_nested_form(tool) for tool in tools or ()], to_nested_form(choice)
    names = [_name(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    if isinstance(choice, str):
        Fields({"tool_choice": choice}).choice("tool_choice", CHOICES)
    elif choice is not None:
        tools, choice = _resolve_choice(Fields(choice, "tool_choice"), tools, names)
    if not tools:
        if choice not in (None, "none", "auto"):
            raise wrong_field("tool_choice", "needs tools")
        return {}, {}
    if choice == "none":
        return {}, {}
    if not interface.takes(TOOLS):
        raise wrong_field("tools", "the model calls no tools")
    parameters: dict[str, Any] = {}
    if choice is not None:
        parameters["tool_choice"] = choice if isinstance(choice, str) else orjson.dumps(choice).decode()
    if not parallel:
        parameters["parallel_tool_calls"] = False
    return {TOOLS: [orjson.dumps(tools).decode()]}, parameters


def to_nested_form(tool: Any) -> Any:
    """Return a function tool in the nested format of chat completions. Agents also send a flat format."""
    if (
        not isinstance(tool, dict)
        or tool.get("type") != "function"
        or "name" not in tool
        or "function" in tool
    ):
        return tool
    function = {name: value for name, value in tool.items() if name != "type" and value is not None}
    return {"type": "function", "function": function}


def _name(tool: Any, path: str) -> str:
    """Return the name of a tool. Raises InvalidRequest unless it is a function."""
    described = Fields(tool, path)
    described.require_choice("type", ("function",))
    return described.require_object("function").require_text("name")


def _resolve_choice(choice: Fields, tools: list[Any], names: Sequence[str]) -> tuple[list[Any], Any]:
    """Return the remaining tools and the choice among them, if the client names one or several tools."""
    kind = choice.require_choice("type", ("function", "allowed_tools"))
    inner = choice.require_object(kind)
    if kind == "function":
        name = inner.require_text("name")
        if name not in names:
            raise wrong_field("tool_choice", f"no tool is called {name[:40]!r}")
        return tools, {"type": "function", "function": {"name": name}}
    path = inner.path("tools")
    named = [to_nested_form(tool) for tool in inner.items("tools") or ()]
    allowed = {_name(tool, f"{path}[{index}]") for index, tool in enumerate(named)}
    if unknown := sorted(allowed.difference(names)):
        raise wrong_field("tool_choice", f"no tool is called {unknown[0][:40]!r}")
    mode = inner.choice("mode", CHOICES[1:])
    return [tool for tool, name in zip(tools, names, strict=True) if name in allowed], mode


def parse_arguments(call: dict[str, Any], cut: bool = False) -> dict[str, Any]:
    """Return the arguments of a complete call. Raises InvalidOutput if they are not a JSON object.

    If the output was `cut` off, invalid JSON becomes an empty object. The finish reason shows the truncation.
    """
    function = call["function"]
    try:
        arguments = orjson.loads(function["arguments"] or "{}")
    except orjson.JSONDecodeError:
        arguments = None
    if arguments is None and cut:
        return {}
    if not isinstance(arguments, dict):
        raise InvalidOutput(
            f"The model has called {function['name']} with arguments that are no JSON object."
        )
    return arguments
