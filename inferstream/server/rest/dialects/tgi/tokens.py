"""`DecidedTokens`: the tokens of one text, each with the text that it decides."""

from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple

from .....text.reader import TextReader

MOST_HELD = 64
"""Tokens that wait for a text at most."""

NO_TOP: Mapping[str, float] = {}


class Decided(NamedTuple):
    """A token whose text is known. The text is empty where a later token has the rest of a character."""

    text: str
    id: int | None
    logprob: float | None
    top: Mapping[str, float]
    seconds: float
    """Time since the token before it, or since the request for the first."""


class DecidedTokens:
    """Holds tokens back until their text is decided, so that each token is written once and in its order.

    A token without text waits for the next token that has one: its text may begin a stop string, or be a part of
    a character.
    """

    __slots__ = ("_held", "_seen", "_turned")

    def __init__(self) -> None:
        self._held: list[Decided] = []
        self._seen = 0
        self._turned = perf_counter()

    def decide(self, text: str, reader: TextReader) -> list[Decided]:
        """The tokens that are decided now; the last of them has the text."""
        held = self._held
        if reader.tokens == self._seen:
            return self.rest(text) if text else []
        self._seen = reader.tokens
        now = perf_counter()
        logprob, top = None, NO_TOP
        if reader.logprobs:
            _, logprob, top = reader.logprobs[-1]
            reader.logprobs.clear()
        decided = Decided(text, reader.token_id, logprob, top, now - self._turned)
        self._turned = now
        if not held and text:
            return [decided]
        held.append(decided)
        if not text and len(held) < MOST_HELD:
            return []
        self._held = []
        return held

    def rest(self, text: str) -> list[Decided]:
        """Every token that still waits; the last of them has the text."""
        held, self._held = self._held, []
        if held and text:
            held[-1] = held[-1]._replace(text=text)
        elif text:
            held = [Decided(text, None, None, NO_TOP, perf_counter() - self._turned)]
        return held

    def last(self, text: str, reader: TextReader) -> list[Decided]:
        """The tokens at the end of the text, which are none if all have been written."""
        return self.decide(text, reader) or self.rest(text)
