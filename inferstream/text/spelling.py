"""Tokens whose bytes are no text, as OpenAI spells them."""

import re


def spell(token: bytes) -> str:
    """The text of a token; its bytes if they are none, as OpenAI writes them: `bytes:\\xe2\\x96`."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "bytes:\\x" + token.hex("-").replace("-", "\\x")


def is_part(spelling: str) -> bool:
    """Whether it is that of a part of a character."""
    return re.fullmatch(r"bytes:(\\x[0-9a-f]{2})+", spelling) is not None


def read_spelling(text: str) -> bytes:
    """The bytes of a token that `spell` has written."""
    if is_part(text):
        return bytes.fromhex(text.removeprefix("bytes:").replace("\\x", ""))
    return text.encode(errors="replace")
