"""Reasoning before the final text, in the markers of different model families."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .parser import REASONING, TEXT, CallParser

MAX_START_LENGTH = 256
"""Number of characters within which reasoning must start."""

OPENED = "_open"
"""Suffix of a reasoning format whose opening tag is part of the template."""


class ReasoningTags(NamedTuple):
    """The tags around reasoning, optional tags around the final text, and markers in templates.

    Without `marks`, templates are recognised by the first opening or closing tag.
    """

    opens: tuple[str, ...]
    closes: tuple[str, ...]
    answer_opens: tuple[str, ...] = ()
    answer_closes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


# Most specific first.
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


def find_tags(reasoning: str | None) -> ReasoningTags | None:
    """Return the tags of a format, with or without the suffix `_open`.

    Returns None if the format is unknown.
    """
    return FORMATS.get((reasoning or "").removesuffix(OPENED))


def is_open(prompt: str | None, reasoning: str | None) -> bool:
    """Return whether the output starts within reasoning, according to the prompt or the `_open` suffix."""
    end, tags = (prompt or "").rstrip(), find_tags(reasoning)
    if tags is None:
        return False
    opened = str(reasoning).endswith(OPENED) and not end.endswith(tags.closes)
    return opened or end.endswith(tags.opens)


def begin_answer(prompt: str, reasoning: str | None, opening: str | None) -> tuple[str, str]:
    """Return two strings: a suffix for the prompt, and the start of the output that it causes.

    With the suffix, the answer begins with `opening`.
    """
    tags = find_tags(reasoning)
    if tags is None or not is_open(prompt, reasoning):
        return opening or "", opening or ""
    added = "" if opening is None else f"\n{tags.closes[0]}\n\n{opening}"
    return added, f"{tags.opens[0]}\n{added}"


class Thinking(CallParser):
    """Parses reasoning at the start of the output.

    `opened` is true if the prompt already contains the opening tag. Reasoning also stops at a marker in
    `calls`, because models omit the closing tag.
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
            return self._switch_to(self._around)
        self.rest = REASONING
        return self._switch_to(self._gap)

    def _find_front(self, markers: Sequence[str]) -> int | None:
        """Return the end of a marker at the start of the text, after white space.

        Returns 0 if the text does not start with a marker, or None if that requires more input.
        """
        front = self._text[:MAX_START_LENGTH]
        bare = front.lstrip()
        if marker := next((each for each in markers if bare.startswith(each)), ""):
            return len(front) - len(bare) + len(marker)
        return None if len(front) < MAX_START_LENGTH and any(each.startswith(bare) for each in markers) else 0

    def _gap(self) -> bool:
        return self._skip_space() and self._switch_to(self._reasoning)

    def _reasoning(self) -> bool:
        if not (marker := self._emit_until(REASONING, *self._tags.closes, *self._calls)):
            return False
        self._take(0 if marker in self._calls else len(marker))
        self.rest = TEXT
        return self._switch_to(self._space)

    def _space(self) -> bool:
        return self._skip_space() and self._switch_to(self._around)

    def _around(self) -> bool:
        end = self._find_front(self._tags.answer_opens)
        self._take(end or 0)
        return end is not None and self._switch_to(self._read_wrapped_text if end else self._answer)

    def _read_wrapped_text(self) -> bool:
        """Read the final text within tags."""
        marker = self._emit_until(TEXT, *self._tags.answer_closes)
        self._take(len(marker))
        return bool(marker) and self._switch_to(self._answer)

    def _answer(self) -> bool:
        self._emit_unread(TEXT, len(self._text))
        return False
