"""The format of keys: `ifs_<id>_<43 characters of base64url>`."""

import hashlib
import re
import secrets

PREFIX = "ifs_"
"""The prefix of keys. Logs mask strings that begin with it."""

SECRET_BYTES = 32
"""Random bytes in a key, which are 43 characters of base64url."""

_END = -44
"""Index of the separator between id and secret, from the end of the key."""

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def new_id() -> str:
    """Generate an id of 48 random bits."""
    return secrets.token_hex(6)


def new_key(id: str) -> str:
    """Generate a key. It is not stored anywhere."""
    return f"{PREFIX}{id}_{secrets.token_urlsafe(SECRET_BYTES)}"


def parse_id(key: str) -> str:
    """Return the id in a key. If the string is not a key, the result is meaningless."""
    return key[len(PREFIX) : _END]


def hash_key(key: str) -> bytes:
    """Return the SHA-256 of a key. With 256 random bits in a key, a slow hash would add no protection."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()
