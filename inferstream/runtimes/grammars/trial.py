"""A program that reads a form of a client's and tries it, before the server lets a model write by it.

Some patterns and schemas take minutes or all memory to be made ready, and no thread can be stopped in that. This
process has a limit of both. It imports llguidance alone, so it starts fast.
"""

import json
import random
import resource
import sys
from typing import Any

SECONDS = 1
"""Of the processor. Its own start takes a tenth of it."""

MEMORY = 2**30

STEPS = 64
"""Bytes of a text at random that have to be found within the limits."""

BOUNDS: dict[str, Any] = {
    "max_lexer_states": 20_000,
    "max_grammar_size": 50_000,
    "initial_lexer_fuel": 200_000,
    "step_lexer_fuel": 50_000,
    "verbose_errors": False,
}
"""How much of the library's work, and of its memory, a grammar may take, and each of its tokens."""

NO_TEXT = "no text has this form"

SPACE = r"[\x20\x0A\x0D\x09]{1,32}"
"""White space between the values of JSON. Without a bound a small model writes it for ever."""


FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
"""Formats of strings that llguidance writes by."""


def grammar_of(form: dict[str, Any]) -> str:
    """The form as a grammar of the library's. Raises KeyError, TypeError, ValueError for what cannot be read."""
    from llguidance import LLMatcher, grammar_from

    match form["type"]:
        case "text":
            return str(LLMatcher.grammar_from_regex("(?s:.*)"))
        case "json_object":
            return str(LLMatcher.grammar_from_json_schema({"type": "object"}, overrides=_json()))
        case "json_schema":
            schema = form["json_schema"].get("schema", {"type": "object"})
            schema = _without_unknown_formats(schema)
            return str(LLMatcher.grammar_from_json_schema(schema, overrides=_json()))
        case "regex":
            return str(LLMatcher.grammar_from_regex(form["regex"]))
        case "choice":
            return str(LLMatcher.grammar_from_lark("start: " + " | ".join(map(_literal, form["choice"]))))
        case "calls":
            return str(LLMatcher.grammar_from_lark(_calls(form["calls"])))
        case "grammar":
            return str(grammar_from("grammar", form["grammar"]))
        case kind:
            raise ValueError(f'its type "{kind}" is unknown')


def _json() -> Any:
    return {"whitespace_pattern": SPACE, "coerce_one_of": True}


def _without_unknown_formats(schema: Any) -> Any:
    """The schema without each `format` that the library does not know: by the specification it is a note."""
    if isinstance(schema, list):
        return [*map(_without_unknown_formats, schema)]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name in ("const", "enum") else _without_unknown_formats(value)
        for name, value in schema.items()
        if name != "format" or not isinstance(value, str) or value in FORMATS
    }


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _calls(calls: list[dict[str, Any]]) -> str:
    """One of these calls, each with arguments by its schema."""
    rules = [f"start: {' | '.join(f'call{index}' for index in range(len(calls)))}"]
    for index, call in enumerate(calls):
        schema = json.dumps({**_without_unknown_formats(call["schema"]), "x-guidance": _json()})
        rules.append(f"call{index}: {_literal(call['front'])} arguments{index} {_literal(call['end'])}")
        rules.append(f"arguments{index}: %json {schema}")
    return "\n".join(rules)


def tried(grammar: str) -> str:
    """What is wrong with a grammar; empty if texts can be written by it."""
    from llguidance import LLMatcher, LLParserLimits, LLTokenizer

    matcher = LLMatcher(LLTokenizer("byte"), grammar, log_level=0, limits=LLParserLimits(**BOUNDS))
    chosen = random.Random(0)
    for step in range(STEPS):
        mask = matcher.compute_bitmask()
        if matcher.is_error():
            return NO_TEXT if not step and "NoExtension" in matcher.get_error() else str(matcher.get_error())
        allowed = [byte for byte in range(256) if mask[byte // 8] >> byte % 8 & 1]
        if not allowed:
            return "" if step else NO_TEXT
        matcher.consume_token(chosen.choice(allowed))
        if matcher.is_stopped():
            break
    return str(matcher.get_error())


def main() -> None:
    """One form as JSON on the standard input, and what became of it on the output."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.append(sys.argv[1])
    try:
        grammar = grammar_of(json.load(sys.stdin))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = error if type(error) is ValueError else repr(error)
        json.dump({"error": f"it cannot be read: {reason}"}, sys.stdout)
    else:
        json.dump({"grammar": grammar, "error": tried(grammar)}, sys.stdout)


if __name__ == "__main__":
    main()
