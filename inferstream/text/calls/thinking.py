"""Reasoning in front of an answer, by the markers that families of models write around it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .parser import REASONING, TEXT, CallParser

LONGEST = 256
"""Characters in which reasoning has to begin."""

OPENED = "_open"
"""How the format of reasoning ends whose beginning the template writes."""


class ReasoningTags(NamedTuple):
    """What is before and behind reasoning, what may be around the answer, and what templates hold, if not the first."""

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    answer_opens: tuple[str, ...] = ()
    answer_closes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


# The clearest first.
FORMATS: Mapping[str, ReasoningTags] = {
    "seed": ReasoningTags(("<seed:think>",), ("</seed:think>",)),
    "mistral": ReasoningTags(("[THINK]",), ("[/THINK]",)),
    "cohere": ReasoningTags(
        ("<|START_THINKING|>",), ("<|END_THINKING|>",), ("<|START_RESPONSE|>",), ("<|END_RESPONSE|>",)
    ),
    "granite": ReasoningTags(
        ("<think>", "Here is my thought process:", "Here's my thought process:"),
        ("</think>", "Here is my response:", "Here's my response:"),
        ("<response>",),
        ("</response>",),
        ("Here is my thought process", "<response></response>"),
    ),
    "hunyuan": ReasoningTags(("<think>",), ("</think>",), ("<answer>",), ("</answer>",), ("<answer>",)),
    "gemma": ReasoningTags(("<|channel>thought",), ("<channel|>",)),
    "think": ReasoningTags(("<think>",), ("</think>",)),
}


def tags_of(reasoning: str | None) -> ReasoningTags | None:
    """The tags of a format, which may end with `_open`; None if there are none."""
    return FORMATS.get((reasoning or "").removesuffix(OPENED))


def is_open(prompt: str | None, reasoning: str | None) -> bool:
    """Whether a text begins within its reasoning, as the prompt shows, else as a format `_open` says."""
    end, tags = (prompt or "").rstrip(), tags_of(reasoning)
    if tags is None:
        return False
    opened = str(reasoning).endswith(OPENED) and not end.endswith(tags.closes)
    return opened or end.endswith(tags.opens)


def begin_answer(prompt: str, reasoning: str | None, opening: str | None) -> tuple[str, str]:
    """What is added to a prompt whose answer has an opening, and how the text begins. None lets the model think.

    A text has the tag that its prompt ends with, because who reads it does not see the prompt.
    """
    tags = tags_of(reasoning)
    if tags is None or not is_open(prompt, reasoning):
        return opening or "", opening or ""
    added = "" if opening is None else f"\n{tags.closes[0]}\n\n{opening}"
    return added, f"{tags.opens[0]}\n{added}"


class Thinking(CallParser):
    """Reasoning at the beginning of a text. `opened` is for templates that write its tag themselves.

    A marker of `calls` ends it too: models forget the tag.
    """

    def __init__(self, tags: ReasoningTags, opened: bool = False, calls: Sequence[str] = ()) -> None:
        super().__init__()
        self._tags = tags
        self._opened = opened
        self._calls = calls

    def _start(self) -> bool:
        end = self._find_front(self._tags.opens)
        if end is None:
            return False
        self._take(end)
        if not end and not self._opened:
            return self._go(self._around)
        self.rest = REASONING
        return self._go(self._gap)

    def _find_front(self, markers: Sequence[str]) -> int | None:
        """Where one of the markers ends that begins the text, behind white space; 0 without one, None if undecided."""
        front = self._text[:LONGEST]
        bare = front.lstrip()
        if marker := next((each for each in markers if bare.startswith(each)), ""):
            return len(front) - len(bare) + len(marker)
        return None if len(front) < LONGEST and any(each.startswith(bare) for each in markers) else 0

    def _gap(self) -> bool:
        return self._skip_space() and self._go(self._reasoning)

    def _reasoning(self) -> bool:
        if not (marker := self._give_up_to(REASONING, *self._tags.closes, *self._calls)):
            return False
        self._take(0 if marker in self._calls else len(marker))
        self.rest = TEXT
        return self._go(self._space)

    def _space(self) -> bool:
        return self._skip_space() and self._go(self._around)

    def _around(self) -> bool:
        end = self._find_front(self._tags.answer_opens)
        self._take(end or 0)
        return end is not None and self._go(self._wrapped if end else self._answer)

    def _wrapped(self) -> bool:
        """An answer within tags."""
        marker = self._give_up_to(TEXT, *self._tags.answer_closes)
        self._take(len(marker))
        return bool(marker) and self._go(self._answer)

    def _answer(self) -> bool:
        self._give(TEXT, len(self._text))
        return False
