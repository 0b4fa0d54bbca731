"""Incremental decoding of token IDs to text, without splitting characters."""

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"
"""The character that decoders write for invalid or incomplete UTF-8."""

HELD = 16
"""Number of tokens after which an incomplete character is emitted, because the output is not UTF-8."""

MAX_CHARACTER_LENGTH = 4
"""Size of the longest UTF-8 character in bytes, and so the maximum number of tokens that it can span."""


class Detokenizer:
    """Decodes the tokens of one stream to text.

    Tokens cannot be decoded separately: several may form one character, and tokenizers drop the space before
    the first token. Each new piece is therefore the difference between two decoded windows that start at the
    same token. `decode` turns token IDs into text. `context` holds the last tokens of the prompt, so that the
    first token is decoded as a continuation.
    """

    __slots__ = ("_decode", "_end", "_ids", "_prefix")

    def __init__(self, decode: Callable[[list[int]], str], context: Sequence[int] = ()) -> None:
        self._decode = decode
        self._ids = list(context)
        self._end = len(self._ids)
        """Number of tokens in the window whose text was already emitted."""
        self._prefix = self._decode(self._ids) if self._ids else ""

    def add(self, token: int) -> str:
        """Add a token and return the text that it completes. Empty while a character is incomplete."""
        self._ids.append(token)
        text = self._decode(self._ids)
        if text.endswith(REPLACEMENT):
            if len(self._ids) - self._end <= HELD:
                return ""
            return self._advance(len(self._ids) - MAX_CHARACTER_LENGTH + 1)
        return self._take_new_text(text, len(self._ids))

    def finish(self, tokens: Sequence[int]) -> str:
        """Add the last tokens of the stream and return the rest of the text."""
        self._ids.extend(tokens)
        return self.flush()

    def flush(self) -> str:
        """Return the rest of the text at the end of the stream, including incomplete characters."""
        return self._advance(len(self._ids))

    def _advance(self, end: int) -> str:
        return self._take_new_text(self._decode(self._ids[:end]), end)

    def _take_new_text(self, text: str, end: int) -> str:
        """Return the part of `text` that was not emitted yet. If it is not empty, the window advances."""
        new = text[len(self._prefix) :]
        if new:
            self._ids = self._ids[self._end :]
            end -= self._end
            self._end = end
            self._prefix = self._decode(self._ids[:end])
        return new
