"""The formats of calls and of reasoning by name, and how a chat template shows them."""

import json
import re
from collections.abc import Callable, Mapping

from .coder import Coder
from .harmony import Harmony
from .objects import Hermes, Llama, Mistral
from .parser import CallParser, Chain, Tools
from .pythonic import Pythonic
from .thinking import FORMATS, Thinking, is_open

PARSERS: Mapping[str, Callable[[Tools], CallParser]] = {
    "hermes": Hermes,
    "mistral": Mistral,
    "llama": Llama,
    "pythonic": Pythonic,
    "qwen_coder": Coder,
    "harmony": Harmony,
}

SPECIAL = frozenset(("mistral", "llama", "pythonic", "harmony"))
"""Formats whose markers are special tokens, which a runtime has to write out."""

MARKS = {
    "<|channel|>": "harmony",
    "<function=": "qwen_coder",
    "[TOOL_CALLS]": "mistral",
    "<tool_call>": "hermes",
    "<|python_start|>": "pythonic",
    '"parameters": dictionary': "llama",
    "<|python_tag|>": "llama",
}
"""What the template of each format holds, the clearest first."""

OPENED = re.compile(r"<think>(?!(\\n|\s)*</think>)")
"""Reasoning that a template opens, and does not close at once for models that are not to think."""


def call_format(template: str) -> str | None:
    """The format of the calls that a chat template shows to its model."""
    return next((format for mark, format in MARKS.items() if mark in template), None)


def reasoning_format(template: str) -> str | None:
    """`think`, or `think_open` where the template itself opens the reasoning of an answer."""
    if "<think>" not in template and "</think>" not in template:
        return None
    _, prompted, last = template.rpartition("add_generation_prompt")
    return "think_open" if prompted and OPENED.search(last) else "think"


def reading(
    calls: str | None, reasoning: str | None, tools: Tools | None, prompt: str | None = None
) -> CallParser | Chain | None:
    """What reads a text with these formats, of a prompt that may be known. `tools` are those on offer, if any."""
    if calls == "harmony":
        return Harmony(tools or ())
    parser = PARSERS[calls](tools) if calls and calls in PARSERS and tools is not None else None
    if reasoning not in FORMATS:
        return parser
    thinking = Thinking(is_open(prompt, reasoning), *(["<tool_call>\n"] if parser else []))
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
    return _begun(calls, name)


def opening_of_text(calls: str | None) -> str:
    """How an answer begins that is no call and has no reasoning in front."""
    return "<|channel|>final<|message|>" if calls == "harmony" else ""


def _begun(calls: str, name: str | None) -> str:
    """How the call of this function begins, else of any."""
    quoted = None if name is None else json.dumps(name, ensure_ascii=False)
    if calls in ("hermes", "llama"):
        key = "arguments" if calls == "hermes" else "parameters"
        begun = '{"name": "' if quoted is None else f'{{"name": {quoted}, "{key}": {{'
        return f"<tool_call>\n{begun}" if calls == "hermes" else begun
    if calls == "harmony":
        return f"<|channel|>commentary to=functions.{'' if name is None else f'{name}<|message|>{{'}"
    if calls == "qwen_coder":
        return f"<tool_call>\n<function={'' if name is None else f'{name}>'}"
    if calls == "mistral":
        return "[TOOL_CALLS]"
    return "[" if name is None else f"[{name}("
