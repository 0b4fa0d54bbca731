"""Schemas for tool calls that `strict` tools and `tool_choice` enforce."""

import json
from collections.abc import Mapping
from typing import Any

AROUND = {
    "hermes": ("", '"arguments"', "}\n</tool_call>"),
    "llama": ("", '"parameters"', "}"),
    "mistral": ('[{"name": "', '"arguments"', "}]"),
}
"""For each format: the string between the start of a call and its name, the arguments key, and the end."""

OBJECT: Mapping[str, Any] = {"type": "object"}


def build_strict_format(calls: str | None, tools: str, choice: object) -> str | None:
    """Return the JSON grammar of a forced call after its opening, or None if no schema constrains it."""
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
