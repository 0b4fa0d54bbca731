"""A program that compiles and tries a client's format before the server uses it.

Some patterns and schemas take minutes or exhaust memory, and a thread cannot be interrupted. This process
limits both. It imports only llguidance, so it starts quickly.
"""

import json
import random
import resource
import sys
from typing import Any

SECONDS = 1
"""CPU time limit. Starting the process takes about a tenth of it."""

MEMORY = 2**30

STEPS = 64
"""Random bytes to generate within the limits."""

BOUNDS: dict[str, Any] = {
    "max_lexer_states": 20_000,
    "max_grammar_size": 50_000,
    "initial_lexer_fuel": 200_000,
    "step_lexer_fuel": 50_000,
    "verbose_errors": False,
}
"""Library limits for the compilation of a grammar and for each token."""

NO_TEXT = "no text has this form"

SPACE = r"[\x20\x0A\x0D\x09]{1,32}"
"""White space between JSON values. It is limited, because small models may repeat it indefinitely."""


FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
"""String formats that llguidance enforces."""


def to_grammar(form: dict[str, Any]) -> str:
    """Convert a format to an llguidance grammar. Raises KeyError, TypeError or ValueError."""
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
    """Remove each `format` that the library does not support. JSON Schema defines it as an annotation."""
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
    """Return a grammar for one of these calls, with arguments that match its schema."""
    rules = [f"start: {' | '.join(f'call{index}' for index in range(len(calls)))}"]
    for index, call in enumerate(calls):
        schema = json.dumps({**_without_unknown_formats(call["schema"]), "x-guidance": _json()})
        rules.append(f"call{index}: {_literal(call['front'])} arguments{index} {_literal(call['end'])}")
        rules.append(f"arguments{index}: %json {schema}")
    return "\n".join(rules)


def try_grammar(grammar: str) -> str:
    """Generate random text. Returns the error, or an empty string if the grammar works."""
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
    """Read a JSON format from standard input, and write the grammar or the error to standard output."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.append(sys.argv[1])
    try:
        grammar = to_grammar(json.load(sys.stdin))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = error if type(error) is ValueError else repr(error)
        json.dump({"error": f"it cannot be read: {reason}"}, sys.stdout)
    else:
        json.dump({"grammar": grammar, "error": try_grammar(grammar)}, sys.stdout)


if __name__ == "__main__":
    main()
