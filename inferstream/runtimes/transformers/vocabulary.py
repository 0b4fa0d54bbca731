"""`Vocabulary`: the bytes that each token of a tokenizer of transformers stands for."""

import re
from collections.abc import Sequence
from typing import Any

from ...text.detokenizer import REPLACEMENT
from ...text.token import spell
from .sampling import ChosenToken
from .stream import TokenStream

BYTE = re.compile("<0x([0-9A-F]{2})>")
"""A token of one byte where the vocabulary is made of text."""

SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
HIDDEN = sorted({*range(256)}.difference(SHOWN))
LETTERS = {chr(byte): byte for byte in SHOWN} | {chr(256 + at): byte for at, byte in enumerate(HIDDEN)}
"""Bytes by the letters of GPT-2 and its successors. A byte that cannot be shown has a letter of its own."""


class Vocabulary:
    """Spells single tokens, of which a decoder shows only whole characters."""

    def __init__(self, tokenizer: Any, model: Any) -> None:
        self._tokenizer = tokenizer
        backend = getattr(tokenizer, "backend_tokenizer", None)
        self._is_byte_level = "ByteLevel" in str(getattr(backend, "decoder", None))
        self.size: int = model.config.get_text_config().vocab_size

    def spelling_of(self, token: int, text: str) -> str | None:
        """How a token that adds this text is spelled, if it is a part of a character; else None."""
        piece = self._bytes_of(token)
        return spell(piece) if REPLACEMENT in text + piece.decode(errors="replace") else None

    def spelled(self, top: Sequence[tuple[int, float]]) -> dict[str, float]:
        """The most likely tokens, each by its spelling, or by its name if another one is spelled so."""
        found: dict[str, float] = {}
        for token, logprob in top:
            spelling = spell(self._bytes_of(token))
            found[self._name_of(token) if spelling in found else spelling] = logprob
        return found

    def scored(self, stream: TokenStream) -> list[tuple[str, float | None, dict[str, float]]]:
        """The tokens of a prompt with their log probabilities, of which the first has none."""
        scores = [ChosenToken(stream.tokens[0]), *(stream.scores or ())]
        return [
            (spell(self._bytes_of(each.token)), each.logprob, self.spelled(each.top or ())) for each in scores
        ]

    def _name_of(self, token: int) -> str:
        return str(self._tokenizer.convert_ids_to_tokens(token) or f"<{token}>")

    def _bytes_of(self, token: int) -> bytes:
        name = self._name_of(token)
        if self._is_byte_level and LETTERS.keys() >= {*name}:
            return bytes(LETTERS[letter] for letter in name)
        byte = BYTE.fullmatch(name)
        return name.replace("\u2581", " ").encode() if byte is None else bytes([int(byte[1], 16)])
