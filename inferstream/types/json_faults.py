"""Descriptions of the faults in invalid JSON, for error messages."""

import json
from collections.abc import Mapping

PYTHON: Mapping[str, str] = {"True": "true", "False": "false", "None": "null"}
"""Python literals that JSON spells differently."""

MAX_TEXT_LENGTH = 2**16
"""Maximum length, in characters, of JSON that is parsed again to find its fault."""

NEARBY = 100
"""Number of characters to inspect before and after the fault."""

NO_VALUE = "no JSON value", "write a string in double quotes, a number, true, false or null"


def describe_json_fault(text: str, position: int, reason: str, hint: str) -> str:
    """Return a message with the line, the column, the fault and the next step.

    `reason` is the parser's message, which is used for unknown faults. `hint` separates the next step.
    """
    start = text.rfind("\n", 0, position)
    place = f"line {text.count(chr(10), 0, position) + 1} column {position - start}"
    before, rest = text[max(position - NEARBY, 0) : position], text[position : position + NEARBY]
    fault, step = _fault_and_step(text, before.rstrip(), rest.lstrip()) or (reason, "")
    return f"{place}: not valid JSON: {fault}{step and hint + step}"


def _fault_and_step(text: str, before: str, rest: str) -> tuple[str, str] | None:
    if not rest:
        return "the text ends too early" if before else "the text is empty", "complete it"
    after = rest[1:].lstrip() if rest[0] == "," else rest if before.endswith(",") else ""
    if after[:1] in ("}", "]"):
        return f'a comma before "{after[0]}"', "remove the comma"
    if rest[0] == "'":
        return "a single quote", 'write strings in double quotes, as "name"'
    if rest.startswith(("//", "/*", "#")):
        return "a comment", "remove it, because JSON has no comments"
    if (name := next(filter(rest.startswith, PYTHON), None)) is not None:
        return f"{name} is Python", f"write {PYTHON[name]}"
    return _fault_of_parser(text) if len(text) <= MAX_TEXT_LENGTH else None


def _fault_of_parser(text: str) -> tuple[str, str] | None:
    """Return the fault that Python's parser finds, because its messages name the missing character."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        message = error.msg
    except (RecursionError, ValueError):  # nested too deeply, or an integer of over 4,300 digits
        return None
    else:
        return None  # Python accepts some JSON that other parsers reject
    if "property name" in message:
        return "a name without double quotes", 'write it as "name"'
    if "delimiter" in message:
        missing = message.partition("'")[2].partition("'")[0]
        return f'no "{missing}" before this place', f'add the "{missing}"'
    if message.startswith("Unterminated"):
        return "a string without an end", "add the closing double quote"
    if message == "Extra data":
        return "more text after the end of the JSON value", "remove it"
    return NO_VALUE if message == "Expecting value" else None
