"""A function as an agent: it calls a tool, and says what the tool returned, or fills in the schema of the client."""

import json
from collections.abc import Iterator
from typing import Any

from inferstream import App, Token, Usage

app = App()

USUAL = ("multiply", "exec_command", "shell", "Bash", "bash", "run_commands")
"""The tools that it calls if it may; else the first."""

COMMAND = "echo found-it"


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


def call(tools: list[dict[str, Any]]) -> Iterator[Token]:
    """A call in three pieces, as language models write them."""
    functions = {tool["function"]["name"]: tool["function"] for tool in tools}
    name = next((each for each in USUAL if each in functions), next(iter(functions)))
    schema = functions[name]["parameters"]
    arguments = json.dumps(filled({"type": "object", **schema}, schema))
    middle = len(arguments) // 2
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
    yield Token(tool_calls=[first])
    for piece in (arguments[:middle], arguments[middle:]):
        yield Token(tool_calls=[{"index": 0, "function": {"arguments": piece}}])


@app.model
def agent(messages: str, tools: str = "", response_format: str = "") -> Iterator[Token]:
    turns = json.loads(messages)
    result = next((turn["content"] for turn in turns if turn["role"] == "tool"), None)
    if tools and result is None:
        yield from call(json.loads(tools))
    elif response_format:
        schema = json.loads(response_format).get("json_schema", {}).get("schema", {"type": "object"})
        text = json.dumps(filled(schema, schema))
        yield from (Token(text[at : at + 4]) for at in range(0, len(text), 4))
    else:
        said = turns[-1]["content"] if result is None else result
        yield from (Token(f"{word} ") for word in f"It is {said}".split(" "))
    yield Token(finish_reason="stop", usage=Usage(len(turns), 3))
