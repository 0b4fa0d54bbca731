"""Reasoning in front of an answer: `<think>…</think>`."""

import re

from .parser import REASONING, TEXT, CallParser

LONGEST = 256
"""Characters in which reasoning has to begin."""

FORMATS = ("think", "think_open")
OPEN, CLOSE = "<think>", "</think>"
CLOSED = "\n</think>\n\n"
"""What ends the reasoning that a template has opened."""
BEGUN = re.compile(r"(\s*)(<think>|<think|<thin|<thi|<th|<t|<|)")


def is_open(prompt: str | None, reasoning: str | None) -> bool:
    """Whether a text begins within its reasoning, as the prompt shows, else as the format `think_open` says."""
    end = (prompt or "").rstrip()
    opened = end.endswith(OPEN) or (reasoning == "think_open" and not end.endswith(CLOSE))
    return opened and reasoning in FORMATS


def begin_answer(prompt: str, reasoning: str | None, opening: str | None) -> tuple[str, str]:
    """What is added to a prompt whose answer has an opening, and how the text begins. None lets the model think.

    A text has the tag that its prompt ends with, because who reads it does not see the prompt.
    """
    if not is_open(prompt, reasoning):
        return opening or "", opening or ""
    added = "" if opening is None else CLOSED + opening
    return added, f"{OPEN}\n{added}"


class Thinking(CallParser):
    """Reasoning at the beginning of a text. `opened` is for templates that write `<think>` themselves.

    A line that is a `call` ends it too: models forget the tag.
    """

    def __init__(self, opened: bool = False, call: str = CLOSE) -> None:
        super().__init__()
        self._opened = opened
        self._call = call

    def _start(self) -> bool:
        begun = BEGUN.match(self._text, 0, LONGEST)
        if begun is not None and begun[2] == OPEN:
            self._take(begun.end())
        elif begun is not None and begun.end() == len(self._text) < LONGEST:
            return False
        elif not self._opened:
            return self._go(self._answer)
        self._rest = REASONING
        return self._go(self._gap)

    def _gap(self) -> bool:
        return self._skip_space() and self._go(self._reasoning)

    def _reasoning(self) -> bool:
        if not (marker := self._give_up_to(REASONING, CLOSE, self._call)):
            return False
        self._take(len(CLOSE) if marker == CLOSE else 0)
        self._rest = TEXT
        return self._go(self._space)

    def _space(self) -> bool:
        return self._skip_space() and self._go(self._answer)

    def _answer(self) -> bool:
        self._give(TEXT, len(self._text))
        return False
