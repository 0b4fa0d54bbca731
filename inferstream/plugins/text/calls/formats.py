"""Formats of tool calls and reasoning, and how to detect them in a chat template."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from .coder import TAGS, TagParser
from .gemma import Gemma
from .harmony import Harmony
from .objects import FAMILIES, SECTION, ObjectParser
from .parser import CallParser, Chain, Tools
from .pythonic import Pythonic
from .thinking import FORMATS, OPENED, Thinking, find_tags, is_open

PARSERS: Mapping[str, Callable[[Tools], CallParser]] = {
    **{name: partial(ObjectParser, markers) for name, markers in FAMILIES.items()},
    **{name: partial(TagParser, tags) for name, tags in TAGS.items()},
    "pythonic": Pythonic,
    "harmony": Harmony,
    "gemma": Gemma,
}

# Tool call formats without special tokens. For the others, a runtime must not skip special tokens.
TEXTUAL = frozenset(("hermes", "qwen_coder", "glm", "none", None))
# Reasoning formats with special tokens.
SPECIAL = frozenset(("cohere", "gemma", "mistral", "seed"))

# Each format with the start of a call and the markers in its templates, most specific first. The start of a
# call to any function is the part before the name.
SHOWN: Sequence[tuple[str, str, Sequence[str]]] = (
    ("harmony", "<|channel|>commentary to=functions.%s<|message|>{", ["<|channel|>"]),
    ("minimax", '<minimax:tool_call>\n<invoke name="%s">', ["<minimax:tool_call>"]),
    ("deepseek_v32", '<｜DSML｜function_calls>\n<｜DSML｜invoke name="%s">\n', ["｜DSML｜"]),
    ("deepseek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>%s<｜tool▁sep｜>{", ["<｜tool▁call"]),
    (
        "kimi",
        f"{SECTION}<|tool_call_begin|>functions.%s:0<|tool_call_argument_begin|>{{",
        [SECTION, "<|im_middle|>"],
    ),
    ("glm", "<tool_call>%s\n", ["<arg_key>"]),
    ("cohere", '<|START_ACTION|>[{"tool_name": "%s", "parameters": {', ["<|START_ACTION|>"]),
    ("qwen_coder", "<tool_call>\n<function=%s>", ["<function="]),
    ("mistral", "[TOOL_CALLS]", ["[TOOL_CALLS]"]),
    ("phi", '<|tool_call|>[{"name": "%s", "arguments": {', ["<|tool|>", "<|/tool_call|>", "functools["]),
    ("granite", '<|tool_call|>[{"name": "%s", "arguments": {', ["<|tool_call|>"]),
    ("gemma", "<|tool_call>call:%s{", ["<|tool_call>", "<start_function_call>"]),
    ("nemotron", '<TOOLCALL>[{"name": "%s", "arguments": {', ["<TOOLCALL>"]),
    ("xlam", '[{"name": "%s", "arguments": {', []),
    ("hunyuan", '<tool_calls>[{"name": "%s", "arguments": {', []),
    ("minimax_m1", '<tool_calls>\n{"name": "%s", "arguments": {', ["<tool_calls>"]),
    ("hermes", '<tool_call>\n{"name": "%s", "arguments": {', ["<tool_call>"]),
    ("pythonic", "[%s(", ["<|python_start|>", "<|tool_call_start|>", "<function_calls>", "tool_code"]),
    ("llama", '{"name": "%s", "parameters": {', ['"parameters": dictionary', "<|python_tag|>"]),
)
OPENINGS = {format: opening for format, opening, _ in SHOWN}

# Tool call markers that also end reasoning.
CALLS = ("<tool_call>\n", SECTION, "<｜tool▁calls▁begin｜>")


def detect_call_format(template: str) -> str | None:
    """Return the tool call format that a chat template shows, or None."""
    return next((format for format, _, marks in SHOWN if any(mark in template for mark in marks)), None)


def detect_reasoning_format(template: str) -> str | None:
    """Return the reasoning format of a template, with the suffix `_open` if the template opens it."""
    for format, tags in FORMATS.items():
        if any(mark in template for mark in tags.marks or (tags.opens[0], tags.closes[0])):
            _, prompted, last = template.rpartition("add_generation_prompt")
            open, close = re.escape(tags.opens[0]), re.escape(tags.closes[0])
            # Not if it is closed immediately, which turns reasoning off.
            opened = prompted and re.search(rf"{open}(?!(\\n|\s)*{close})", last)
            return format + OPENED if opened else format
    return None


def has_special_tokens(calls: str | None, reasoning: str | None, tools: bool, chat: bool) -> bool:
    """Return whether the output may contain special tokens as markers, which a runtime must not skip."""
    marked = calls == "harmony" or (reasoning or "").removesuffix(OPENED) in SPECIAL
    return (tools and calls not in TEXTUAL) or (chat and marked)


def create_parser(
    calls: str | None, reasoning: str | None, tools: Tools | None, prompt: str | None = None
) -> CallParser | Chain | None:
    """Create a parser for these formats, or None. `tools` are the offered tools, if any.

    If the `prompt` is known, it determines whether the output starts within reasoning.
    """
    if calls == "harmony":
        return Harmony(tools or ())
    parser = PARSERS[calls](tools) if calls and calls in PARSERS and tools is not None else None
    if (tags := find_tags(reasoning)) is None:
        return parser
    thinking = Thinking(tags, is_open(prompt, reasoning), CALLS if parser else ())
    return Chain(thinking, parser) if parser else thinking


def find_call_opening(calls: str | None, choice: object) -> str:
    """Return the start of the output that this `tool_choice` forces. Empty if it forces no call.

    A `choice` of one function is JSON. Raises ValueError if it is invalid.
    """
    if calls is None or calls not in PARSERS or choice in (None, "auto", "none"):
        return ""
    try:
        name = None if choice == "required" else str(json.loads(str(choice))["function"]["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("tool_choice cannot be read") from error
    begun, _, rest = OPENINGS[calls].partition("%s")
    return begun if name is None else begun + json.dumps(name, ensure_ascii=False)[1:-1] + rest


def find_text_opening(calls: str | None) -> str:
    """Return the start of an output that has neither calls nor reasoning."""
    return "<|channel|>final<|message|>" if calls == "harmony" else ""
