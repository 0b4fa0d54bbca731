"""Tool calls: what a client offers, and the pieces that a model yields."""

from collections.abc import Sequence
from typing import Any

import orjson

from ..errors import InvalidOutput
from .fields import Fields, wrong_field
from .inputs import TOOLS
from .interface import TextInterface
from .response_format import Inputs, read_response_format

CHOICES = ("none", "auto", "required")


def read_tools(fields: Fields, interface: TextInterface) -> tuple[Inputs, dict[str, Any]]:
    """Inputs and parameters of the tools and of the response format that a client of chat asks for.

    Raises InvalidRequest that names the field, if it is wrong or the model declares no input of this name.
    """
    if fields.get("functions") is not None:
        raise fields.wrong("functions", "is not taken; use tools")
    choice, parallel = fields.get("tool_choice"), read_parallel(fields)
    inputs, parameters = offered(interface, fields.items("tools"), choice, parallel)
    return inputs | read_response_format(fields, interface), parameters


def read_parallel(fields: Fields) -> bool:
    """Whether the client takes several calls at once, which is the default."""
    return fields.get("parallel_tool_calls") is None or fields.flag("parallel_tool_calls")


def offered(
    interface: TextInterface, tools: list[Any] | None, choice: Any, parallel: bool
) -> tuple[Inputs, dict[str, Any]]:
    """Inputs and parameters of tools and a choice among them, both in the form of chat completions."""
    tools, choice = [nested(tool) for tool in tools or ()], nested(choice)
    names = [_name(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    if isinstance(choice, str):
        Fields({"tool_choice": choice}).choice("tool_choice", CHOICES)
    elif choice is not None:
        tools, choice = _chosen(Fields(choice, "tool_choice"), tools, names)
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


def nested(tool: Any) -> Any:
    """A function in the form of chat completions; agents mix in the form of responses, which has no inner object."""
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
    """The name of a tool. Only functions are tools."""
    described = Fields(tool, path)
    described.needed_choice("type", ("function",))
    return described.needed_object("function").needed_text("name")


def _chosen(choice: Fields, tools: list[Any], names: Sequence[str]) -> tuple[list[Any], Any]:
    """The tools that remain, and the choice among them, where the client names one tool or several."""
    kind = choice.needed_choice("type", ("function", "allowed_tools"))
    inner = choice.needed_object(kind)
    if kind == "function":
        name = inner.needed_text("name")
        if name not in names:
            raise wrong_field("tool_choice", f"no tool is called {name[:40]!r}")
        return tools, {"type": "function", "function": {"name": name}}
    path = inner.path("tools")
    named = [nested(tool) for tool in inner.items("tools") or ()]
    allowed = {_name(tool, f"{path}[{index}]") for index, tool in enumerate(named)}
    if unknown := sorted(allowed.difference(names)):
        raise wrong_field("tool_choice", f"no tool is called {unknown[0][:40]!r}")
    mode = inner.choice("mode", CHOICES[1:])
    return [tool for tool, name in zip(tools, names, strict=True) if name in allowed], mode


def arguments_of(call: dict[str, Any], cut: bool = False) -> dict[str, Any]:
    """The arguments of a whole call as an object. Raises InvalidOutput for anything else.

    Those of a text that was `cut` off may have no end, and are then empty: clients read that from its reason.
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
