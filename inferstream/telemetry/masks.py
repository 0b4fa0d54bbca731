"""Keys of clients in texts that are written down."""

import re

PREFIX = "ifs_"
"""How each key begins."""

_KEY = re.compile(PREFIX + r"[A-Za-z0-9._-]{40,}")


def without_keys(text: str) -> str:
    """A text for logs and messages, with each key in it replaced."""
    return _KEY.sub(f"{PREFIX}***", text) if PREFIX in text else text
