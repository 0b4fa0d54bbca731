"""Reasoning in front of an answer: `<think>…</think>`."""

import re

from .parser import REASONING, TEXT, CallParser

LONGEST = 256
"""Characters in which reasoning has to begin."""

OPEN, CLOSE = "<think>", "</think>"
BEGUN = re.compile(r"(\s*)(<think>|<think|<thin|<thi|<th|<t|<|)")


class Thinking(CallParser):
    """Reasoning at the beginning of a text. `opened` is for templates that write `<think>` themselves."""

    def __init__(self, opened: bool = False) -> None:
        super().__init__()
        self._opened = opened

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
        if not self._give_up_to(REASONING, CLOSE):
            return False
        self._take(len(CLOSE))
        self._rest = TEXT
        return self._go(self._space)

    def _space(self) -> bool:
        return self._skip_space() and self._go(self._answer)

    def _answer(self) -> bool:
        self._give(TEXT, len(self._text))
        return False
