"""Seals: contents that clients keep, and that only a server with a key of the same file opens."""

import base64
import secrets
import stat
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from time import time

import orjson

from inferstream.ext.settings import read_file

from ..errors import InvalidSettings, MissingExtra

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ModuleNotFoundError as error:
    raise MissingExtra("the setting state_key_file", "state", error) from None

MARK = "ifs_state_"
"""How each sealed text begins, as logs and recordings recognise it."""

MOST_SEALED = 256 * 1024
"""Characters of a sealed text."""

MOST_OPENED = 512 * 1024
"""Bytes of a content. The event loop compresses it, which takes about 10 ms then."""

LIFETIME = 30 * 24 * 3600
"""Seconds for which a sealed text opens."""

MOST_KEYS = 8

_KEY_BYTES = 32
_VERSION = 1
_HEAD = 6
"""Bytes of the version and of the time at which it expires, which anybody may read."""
_SALT = 32
_TAG = 16
_STANDARD = bytes.maketrans(b"-_", b"+/")
_NONCE = bytes(12)
"""Each content has a key of its own, so that the nonce may always be the same."""


class Seal:
    """The keys of a file: all open, the first one seals. Raises InvalidSettings."""

    def __init__(self, path: str | Path) -> None:
        self._keys = _read(Path(path))

    def takes(self, content: bytes) -> bool:
        """Whether a content may be small enough."""
        return len(content) <= MOST_OPENED

    def seal(self, content: bytes, names: Sequence[str | None]) -> str | None:
        """A text that opens with the same names alone; None for a content that is too large."""
        if not self.takes(content):
            return None
        head = _VERSION.to_bytes(1) + (int(time()) + LIFETIME).to_bytes(_HEAD - 1)
        salt = secrets.token_bytes(_SALT)
        cipher = _cipher(self._keys[0], salt)
        text = _text(head + salt + cipher.encrypt(_NONCE, zlib.compress(content, 1), _bound(head, names)))
        return text if len(text) <= MOST_SEALED else None

    def open(self, text: str, names: Sequence[str | None]) -> bytes | None:
        """The content of a sealed text; None for any other text, at the cost of all keys."""
        sealed = _bytes(text)
        if sealed is None or sealed[0] != _VERSION:
            return None
        head, salt, rest = sealed[:_HEAD], sealed[_HEAD : _HEAD + _SALT], sealed[_HEAD + _SALT :]
        bound, packed = _bound(head, names), None
        for key in self._keys:
            try:
                packed = _cipher(key, salt).decrypt(_NONCE, rest, bound)
            except InvalidTag:
                continue
        if packed is None or int.from_bytes(head[1:]) <= time():
            return None
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(packed, MOST_OPENED)
        return content if unpacking.eof else None


def _cipher(key: bytes, salt: bytes) -> AESGCM:
    """The cipher of one content: random nonces of 96 bits would wear out a key that many servers share."""
    return AESGCM(blake2b(salt, digest_size=_KEY_BYTES, key=key, person=b"inferstream.seal").digest())


def _bound(head: bytes, names: Sequence[str | None]) -> bytes:
    return head + orjson.dumps(names)


def _text(sealed: bytes) -> str:
    return MARK + base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def _bytes(text: str) -> bytes | None:
    """What a text stands for; None for one that is not spelt as ours, so that no two texts are the same."""
    if len(text) > MOST_SEALED or not text.startswith(MARK):
        return None
    encoded = text[len(MARK) :]
    try:
        sealed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        return None
    return sealed if len(sealed) > _HEAD + _SALT + _TAG and _text(sealed) == text else None


def _read(path: Path) -> list[bytes]:
    """The keys of a file: a line in base64 for each. Raises InvalidSettings, which shows none."""
    content, status = read_file(path)
    # Secrets of Kubernetes belong to root, and to a group of which the server is a member.
    closed = stat.S_IRWXO | (stat.S_IWGRP if status.st_uid == 0 else stat.S_IRWXG)
    if status.st_mode & closed:
        raise InvalidSettings(f"{path}: other users have access to it; chmod 600 takes it from them")
    keys = []
    for number, line in enumerate(content.split(b"\n"), 1):
        if not (line := line.strip()) or line.startswith(b"#"):
            continue
        try:
            key = base64.b64decode(line.rstrip(b"=").translate(_STANDARD) + b"=", validate=True)
        except ValueError:
            key = b""
        if len(key) != _KEY_BYTES:
            raise InvalidSettings(f"{path}: line {number} is not {_KEY_BYTES} bytes in base64")
        keys.append(key)
    if not 1 <= len(keys) <= MOST_KEYS:
        raise InvalidSettings(f"{path}: expected 1 to {MOST_KEYS} keys, a line each; there are {len(keys)}")
    return keys
