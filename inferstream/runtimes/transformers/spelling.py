"""The bytes of a single token, of which a decoder shows only whole characters."""

import re
from typing import Any

from ...text.detokenizer import REPLACEMENT

BYTE = re.compile("<0x([0-9A-F]{2})>")
"""A token of one byte where the vocabulary is made of text."""

SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]
HIDDEN = sorted({*range(256)}.difference(SHOWN))
LETTERS = {chr(byte): byte for byte in SHOWN} | {chr(256 + at): byte for at, byte in enumerate(HIDDEN)}
"""Bytes by the letters of GPT-2 and its successors. A byte that cannot be shown has a letter of its own."""


def name_of(tokenizer: Any, token: int) -> str:
    """The token as the vocabulary has it, where each has a name of its own."""
    return str(tokenizer.convert_ids_to_tokens(token) or f"<{token}>")


def bytes_of(tokenizer: Any, token: int) -> bytes:
    """The bytes of the token."""
    text: str = tokenizer.decode([token], clean_up_tokenization_spaces=False)
    if REPLACEMENT not in text:
        return text.encode()
    name = name_of(tokenizer, token)
    byte = BYTE.fullmatch(name)
    return bytes([int(byte[1], 16)]) if byte else bytes(LETTERS.get(letter, 63) for letter in name)
