"""A function as an agent: it calls a tool, and says what the tool returned, or fills in the schema of the client."""

import json
from collections.abc import Iterator
from typing import Any

from inferstream import App, Token, Usage

app = App()

USUAL = ("multiply", "exec_command", "shell", "Bash", "bash", "run_commands")
"""The tools that it calls if it may; else the first."""

COMMAND = "echo found-it"

PATCHES = "apply_patch"
PATCH = "*** Begin Patch\n*** Add File: made.txt\n+grüße\n*** End Patch\n"
"""What Codex makes a file of."""


def filled(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """A value of this schema, with what it requires, or all that it has if it requires nothing."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return filled(schema["anyOf"][0], root)
    kind = schema.get("type")
    if kind == "object":
        known = schema.get("properties", {})
        return {name: filled(known[name], root) for name in schema.get("required") or known}
    if kind == "array":
        return [filled(schema["items"], root)] * 2
    return {"integer": 6, "number": 6, "boolean": True}.get(kind, COMMAND)


def called(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": 0, "id": "call_1", "type": "function", "function": function}


def call(tools: list[dict[str, Any]], wanted: str) -> Iterator[Token]:
    """A call in three pieces, as language models write them; of a patch if the user wants one."""
    functions = {tool["function"]["name"]: tool["function"] for tool in tools}
    if PATCHES in functions and wanted == PATCHES:
        yield Token(tool_calls=[called(PATCHES, json.dumps({"input": PATCH}))])
        return
    name = next((each for each in USUAL if each in functions), next(iter(functions)))
    schema = functions[name]["parameters"]
    arguments = json.dumps(filled({"type": "object", **schema}, schema))
    middle = len(arguments) // 2
    yield Token(tool_calls=[called(name, "")])
    for piece in (arguments[:middle], arguments[middle:]):
        yield Token(tool_calls=[{"index": 0, "function": {"arguments": piece}}])


@app.model
def agent(messages: str, tools: str = "", response_format: str = "") -> Iterator[Token]:
    turns = json.loads(messages)
    result = next((turn["content"] for turn in turns if turn["role"] == "tool"), None)
    if tools and result is None:
        yield from call(json.loads(tools), turns[-1]["content"])
    elif response_format:
        schema = json.loads(response_format).get("json_schema", {}).get("schema", {"type": "object"})
        text = json.dumps(filled(schema, schema))
        yield from (Token(text[at : at + 4]) for at in range(0, len(text), 4))
    else:
        said = turns[-1]["content"] if result is None else result
        yield from (Token(f"{word} ") for word in f"It is {said}".split(" "))
    yield Token(finish_reason="stop", usage=Usage(len(turns), 3))
