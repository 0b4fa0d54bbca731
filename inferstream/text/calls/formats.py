"""The formats of calls and of reasoning by name, and how a chat template shows them."""

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
from .thinking import FORMATS, OPENED, Thinking, is_open, tags_of

PARSERS: Mapping[str, Callable[[Tools], CallParser]] = {
    **{name: partial(ObjectParser, markers) for name, markers in FAMILIES.items()},
    **{name: partial(TagParser, tags) for name, tags in TAGS.items()},
    "pythonic": Pythonic,
    "harmony": Harmony,
    "gemma": Gemma,
}

# Formats of calls without special tokens, which a runtime has to write out in the others.
TEXTUAL = frozenset(("hermes", "qwen_coder", "glm", "none", None))
# Formats of reasoning with special tokens.
SPECIAL = frozenset(("cohere", "gemma", "mistral", "seed"))

# Formats, how the call of a function begins in them, and what their templates hold, the clearest first.
# A call of any function begins in front of the name.
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

# Markers of calls that end reasoning.
CALLS = ("<tool_call>\n", SECTION, "<｜tool▁calls▁begin｜>")


def call_format(template: str) -> str | None:
    """The format of the calls that a chat template shows to its model."""
    return next((format for format, _, marks in SHOWN if any(mark in template for mark in marks)), None)


def reasoning_format(template: str) -> str | None:
    """The format of the reasoning that a template shows, with `_open` where it opens that of an answer itself."""
    for format, tags in FORMATS.items():
        if any(mark in template for mark in tags.marks or (tags.opens[0], tags.closes[0])):
            _, prompted, last = template.rpartition("add_generation_prompt")
            open, close = re.escape(tags.opens[0]), re.escape(tags.closes[0])
            # Not one that is closed at once, for models that are not to think.
            opened = prompted and re.search(rf"{open}(?!(\\n|\s)*{close})", last)
            return format + OPENED if opened else format
    return None


def has_special_tokens(calls: str | None, reasoning: str | None, tools: bool, chat: bool) -> bool:
    """Whether an answer may have markers that are special tokens, which a runtime has to write out."""
    marked = calls == "harmony" or (reasoning or "").removesuffix(OPENED) in SPECIAL
    return (tools and calls not in TEXTUAL) or (chat and marked)


def reading(
    calls: str | None, reasoning: str | None, tools: Tools | None, prompt: str | None = None
) -> CallParser | Chain | None:
    """What reads a text with these formats, of a prompt that may be known. `tools` are those on offer, if any."""
    if calls == "harmony":
        return Harmony(tools or ())
    parser = PARSERS[calls](tools) if calls and calls in PARSERS and tools is not None else None
    if (tags := tags_of(reasoning)) is None:
        return parser
    thinking = Thinking(tags, is_open(prompt, reasoning), CALLS if parser else ())
    return Chain(thinking, parser) if parser else thinking


def opening(calls: str | None, choice: object) -> str:
    """How an answer begins under this `tool_choice`, which is JSON where it names a function; empty if it is free.

    Raises ValueError for a choice that cannot be read.
    """
    if calls is None or calls not in PARSERS or choice in (None, "auto", "none"):
        return ""
    try:
        name = None if choice == "required" else str(json.loads(str(choice))["function"]["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("tool_choice cannot be read") from error
    begun, _, rest = OPENINGS[calls].partition("%s")
    return begun if name is None else begun + json.dumps(name, ensure_ascii=False)[1:-1] + rest


def opening_of_text(calls: str | None) -> str:
    """How an answer begins that is no call and has no reasoning in front."""
    return "<|channel|>final<|message|>" if calls == "harmony" else ""
