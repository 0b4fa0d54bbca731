"""Calls that a client wants to keep to the schemas of its tools: `strict`, and a `tool_choice` that asks for one."""

import json
from collections.abc import Mapping
from typing import Any

AROUND = {
    "hermes": ("", '"arguments"', "}\n</tool_call>"),
    "llama": ("", '"parameters"', "}"),
    "mistral": ('[{"name": "', '"arguments"', "}]"),
}
"""What stands between how a call of any function begins and its name, what its arguments are called, and its end."""

OBJECT: Mapping[str, Any] = {"type": "object"}


def strict_form(calls: str | None, tools: str, choice: object) -> str | None:
    """The form, as JSON, of what follows the opening of a call that is `required`; None if no schema binds it.

    `tools` and a `choice` of one function are JSON. The functions that are not strict may have any arguments.
    """
    if calls not in AROUND or choice in (None, "auto", "none"):
        return None
    named = None if choice == "required" else json.loads(str(choice))["function"]["name"]
    functions = [tool.get("function", tool) for tool in json.loads(tools)]
    functions = [each for each in functions if named in (None, each["name"])]
    if not any(each.get("strict") for each in functions):
        return None
    front, key, end = AROUND[calls]
    parts = [
        {
            "front": f"{front}{json.dumps(each['name'], ensure_ascii=False)[1:]}, {key}: ",
            "schema": (each.get("parameters") or OBJECT) if each.get("strict") else OBJECT,
            "end": end,
        }
        for each in functions
    ]
    return json.dumps({"type": "calls", "calls": parts}, ensure_ascii=False)
