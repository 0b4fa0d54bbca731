"""The formats of calls and of reasoning by name, and how a chat template shows them."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .coder import Coder
from .harmony import Harmony
from .objects import Hermes, Llama, Mistral
from .parser import CallParser, Chain
from .pythonic import Pythonic
from .thinking import Thinking

Tools = Sequence[Mapping[str, Any]]

PARSERS: Mapping[str, Callable[[Tools], CallParser]] = {
    "hermes": lambda tools: Hermes(),
    "mistral": lambda tools: Mistral(),
    "llama": lambda tools: Llama(),
    "pythonic": lambda tools: Pythonic(),
    "qwen_coder": Coder,
    "harmony": lambda tools: Harmony(),
}

CLOSED = "\n</think>\n\n"
"""What ends the reasoning that a template has opened."""

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


def call_format(template: str) -> str | None:
    """The format of the calls that a chat template shows to its model."""
    return next((format for mark, format in MARKS.items() if mark in template), None)


def reasoning_format(template: str) -> str | None:
    """`think`, or `think_open` where the template itself opens the reasoning of an answer."""
    if "<think>" not in template and "</think>" not in template:
        return None
    _, prompted, last = template.rpartition("add_generation_prompt")
    return "think_open" if prompted and "<think>" in last and "</think>" not in last else "think"


def unopened(reasoning: str | None) -> str | None:
    """The format of reasoning of an answer for which the template opens none."""
    return "think" if reasoning == "think_open" else reasoning


def reading(calls: str | None, reasoning: str | None, tools: Tools | None) -> CallParser | Chain | None:
    """What reads a text with these formats. `tools` are those that the client offers, if any."""
    parser = (
        PARSERS[calls](tools or ())
        if calls and calls in PARSERS and (tools is not None or calls == "harmony")
        else None
    )
    if reasoning not in ("think", "think_open") or calls == "harmony":
        return parser
    thinking = Thinking(reasoning == "think_open")
    return thinking if parser is None else Chain(thinking, parser)


def opening(calls: str | None, reasoning: str | None, choice: object) -> str:
    """How an answer begins under this `tool_choice`, which is JSON where it names a function; empty if it is free.

    Raises ValueError for a choice that cannot be read.
    """
    if calls is None or calls not in PARSERS or choice in (None, "auto", "none"):
        return ""
    try:
        name = None if choice == "required" else str(json.loads(str(choice))["function"]["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError("tool_choice cannot be read") from error
    begun = _begun(calls, name)
    return CLOSED + begun if reasoning == "think_open" else begun


def opening_of_text(calls: str | None, reasoning: str | None) -> str:
    """How an answer begins that is no call and has no reasoning in front."""
    if calls == "harmony":
        return "<|channel|>final<|message|>"
    return CLOSED if reasoning == "think_open" else ""


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
