"""The text of a key: `ifs_<id>_<43 characters of base64url>`."""

import hashlib
import re
import secrets

PREFIX = "ifs_"
"""How keys begin; logs hide what begins so."""

SECRET_BYTES = 32
"""Bytes of randomness in a key: 43 characters of base64url."""

_END = -44
"""Where the separator of id and secret is, counted in characters from the end."""

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def new_id() -> str:
    """An id that is not in use: 48 random bits."""
    return secrets.token_hex(6)


def new_key(id: str) -> str:
    """A new key. Only its owner keeps it."""
    return f"{PREFIX}{id}_{secrets.token_urlsafe(SECRET_BYTES)}"


def id_of(key: str) -> str:
    """The id in a key; some other text for a text that is no key."""
    return key[len(PREFIX) : _END]


def digest_of(key: str) -> bytes:
    """The SHA-256 of a key. A key has 256 random bits, so that a slow hash would protect nothing more."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
