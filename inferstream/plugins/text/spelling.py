"""OpenAI notation for tokens that are not valid UTF-8."""

import re


def spell(token: bytes) -> str:
    """Return the text of a token. Invalid UTF-8 is written as in OpenAI: `bytes:\\xe2\\x96`."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "bytes:\\x" + token.hex("-").replace("-", "\\x")


def is_byte_escape(spelling: str) -> bool:
    """Return whether a spelled token is part of a character."""
    return re.fullmatch(r"bytes:(\\x[0-9a-f]{2})+", spelling) is not None


def read_spelling(text: str) -> bytes:
    """Return the bytes of a token from the result of `spell`."""
    if is_byte_escape(text):
        return bytes.fromhex(text.removeprefix("bytes:").replace("\\x", ""))
    return text.encode(errors="replace")
