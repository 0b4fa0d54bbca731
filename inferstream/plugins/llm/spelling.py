"""The bytes and spelling of single tokens. A decoder would replace incomplete characters."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from inferstream import Token
from inferstream.plugins.text.detokenizer import REPLACEMENT
from inferstream.plugins.text.spelling import is_byte_escape, spell

BYTE = re.compile("<0x([0-9A-F]{2})>")
"""A byte token in a vocabulary of strings."""

SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
HIDDEN = sorted({*range(256)}.difference(SHOWN))
LETTERS = {chr(byte): byte for byte in SHOWN} | {chr(256 + at): byte for at, byte in enumerate(HIDDEN)}
"""Bytes by their characters in byte-level vocabularies (GPT-2), in which every byte is printable."""

Top = Sequence[tuple[int, float]] | None
"""The most likely tokens with their log probabilities, if requested."""


class Speller(ABC):
    """Spells the tokens of a vocabulary in the notation of OpenAI."""

    @abstractmethod
    def name(self, token: int) -> str:
        """Return the unique name of a token in the vocabulary."""

    @abstractmethod
    def read_bytes(self, token: int) -> bytes:
        """Return the bytes of a token, including special ones."""

    def spell(self, token: int) -> str:
        return spell(self.read_bytes(token))

    def spell_top(self, top: Top) -> dict[str, float]:
        """Return the top tokens by spelling, or by vocabulary name if two have the same spelling."""
        spelled: dict[str, float] = {}
        for token, logprob in top or ():
            spelling = self.spell(token)
            spelled[self.name(token) if spelling in spelled else spelling] = logprob
        return spelled

    def spell_prompt(
        self, scores: Sequence[tuple[int, float | None, Top]]
    ) -> list[tuple[str, float | None, dict[str, float]]]:
        """Return the spelling, log probability and top tokens of each prompt token."""
        return [(self.spell(each), logprob, self.spell_top(top)) for each, logprob, top in scores]

    def add_logprobs(self, token: Token, logprob: float, top: Top) -> None:
        """Set the log probabilities of a token, and its spelling if that differs from its text."""
        assert token.id is not None
        assert isinstance(token.text, str)
        token.logprob = logprob
        spelling = self.spell(token.id)
        token.spelling = spelling if is_byte_escape(spelling) or REPLACEMENT in token.text else None
        token.top_logprobs = self.spell_top(top) if top else None


class TokenizerSpeller(Speller):
    """Spells the tokens of a tokenizer with the interface of transformers."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def name(self, token: int) -> str:
        return str(self._tokenizer.convert_ids_to_tokens(token) or f"<{token}>")

    def read_bytes(self, token: int) -> bytes:
        text: str = self._tokenizer.decode([token], clean_up_tokenization_spaces=False)
        if REPLACEMENT not in text:
            return text.encode()
        name = self.name(token)
        byte = BYTE.fullmatch(name)
        return bytes([int(byte[1], 16)]) if byte else bytes(LETTERS.get(letter, 63) for letter in name)
