"""Turns token numbers into text as they arrive, without splitting a character."""

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"
"""What decoders write in place of bytes that are no character, or not yet one."""

HELD = 16
"""Tokens after which text that still ends in no character is written as it is: the model writes no UTF-8."""

LONGEST_CHARACTER = 4
"""Bytes of the longest character, and so the most tokens that it may be split over."""


class Detokenizer:
    """The text of one stream, token by token.

    A token has no text of its own: several may make one character, and tokenizers drop the space before the
    first token of a text. So each text is the difference between two decoded windows that begin at the same
    token. `decode` turns numbers into text. `context` holds the last tokens of the prompt, so that the first
    token is decoded as a continuation.
    """

    __slots__ = ("_decode", "_end", "_ids", "_prefix")

    def __init__(self, decode: Callable[[list[int]], str], context: Sequence[int] = ()) -> None:
        self._decode = decode
        self._ids = list(context)
        self._end = len(self._ids)
        """Tokens of the window whose text has been given out."""
        self._prefix = self._decode(self._ids) if self._ids else ""

    def add(self, token: int) -> str:
        """The text that `token` completes; empty while a character is incomplete."""
        self._ids.append(token)
        text = self._decode(self._ids)
        if text.endswith(REPLACEMENT):
            if len(self._ids) - self._end <= HELD:
                return ""
            return self._advance(len(self._ids) - LONGEST_CHARACTER + 1)
        return self._given(text, len(self._ids))

    def flush(self) -> str:
        """The rest of the text, incomplete characters included, at the end of the stream."""
        return self._advance(len(self._ids))

    def _advance(self, end: int) -> str:
        return self._given(self._decode(self._ids[:end]), end)

    def _given(self, text: str, end: int) -> str:
        """Give out what `text` has more than the text given out so far; the window then begins there."""
        new = text[len(self._prefix) :]
        if new:
            self._ids = self._ids[self._end :]
            end -= self._end
            self._end = end
            self._prefix = self._decode(self._ids[:end])
        return new
