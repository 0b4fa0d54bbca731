"""`DecidedTokens`: the tokens of a stream, paired with their text."""

from collections.abc import Mapping
from time import perf_counter
from typing import NamedTuple

from ..reader import TextReader

MAX_HELD = 64
"""Maximum number of tokens that wait for text."""

NO_TOP: Mapping[str, float] = {}


class Decided(NamedTuple):
    """A token whose text is known. The text is empty if a later token completes its character."""

    text: str
    id: int | None
    logprob: float | None
    top: Mapping[str, float]
    seconds: float
    """Time since the previous token, or since the request for the first token."""


class DecidedTokens:
    """Holds tokens back until their text is known, so that each is emitted once and in order.

    A token without text waits for the next token with text, because it may start a stop string or be part of
    a character.
    """

    __slots__ = ("_held", "_seen", "_turned")

    def __init__(self) -> None:
        self._held: list[Decided] = []
        self._seen = 0
        self._turned = perf_counter()

    def decide(self, text: str, reader: TextReader) -> list[Decided]:
        """Return the tokens whose text is now known. The last one carries the text."""
        held = self._held
        if reader.tokens == self._seen:
            return self.release(text) if text else []
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
        if not text and len(held) < MAX_HELD:
            return []
        self._held = []
        return held

    def release(self, text: str) -> list[Decided]:
        """Return all waiting tokens. The last one carries the text."""
        held, self._held = self._held, []
        if held and text:
            held[-1] = held[-1]._replace(text=text)
        elif text:
            held = [Decided(text, None, None, NO_TOP, perf_counter() - self._turned)]
        return held

    def finish(self, text: str, reader: TextReader) -> list[Decided]:
        """Return the tokens at the end of the stream. Empty if all have been emitted."""
        return self.decide(text, reader) or self.release(text)
