"""Encrypted state that clients store and send back. Only servers that share a key can decrypt it."""

import base64
import secrets
import stat
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from time import time

import orjson

from inferstream.errors import InvalidSettings, MissingExtra
from inferstream.ext.settings import read_file

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ModuleNotFoundError as error:
    raise MissingExtra("the setting state_key_file", "state", error) from None

MARK = "ifs_state_"
"""Prefix of sealed text, by which logs and recordings recognise it."""

MAX_SEALED = 256 * 1024
"""Maximum length of sealed text in characters."""

MAX_OPENED = 512 * 1024
"""Maximum size of the content in bytes. Compressing that much on the event loop takes about 10 ms."""

LIFETIME = 30 * 24 * 3600
"""Seconds until sealed text expires."""

MAX_KEYS = 8

_KEY_BYTES = 32
_VERSION = 1
_HEAD = 6
"""Bytes of the unencrypted header: the version and the expiry time."""
_SALT = 32
_TAG = 16
_STANDARD = bytes.maketrans(b"-_", b"+/")
_NONCE = bytes(12)
"""A constant nonce, because each content is encrypted with a different key."""


class Seal:
    """Encrypts with the first key in a file, and decrypts with any of its keys. Raises InvalidSettings."""

    def __init__(self, path: str | Path) -> None:
        self._keys = _read_keys(Path(path))

    def fits(self, content: bytes) -> bool:
        """Return whether the content is within the size limit before compression."""
        return len(content) <= MAX_OPENED

    def seal(self, content: bytes, names: Sequence[str | None]) -> str | None:
        """Encrypt content, bound to `names`. Returns None if it is too large."""
        if not self.fits(content):
            return None
        head = _VERSION.to_bytes(1) + (int(time()) + LIFETIME).to_bytes(_HEAD - 1)
        salt = secrets.token_bytes(_SALT)
        cipher = _cipher(self._keys[0], salt)
        text = _encode(
            head + salt + cipher.encrypt(_NONCE, zlib.compress(content, 1), _bind_names(head, names))
        )
        return text if len(text) <= MAX_SEALED else None

    def open(self, text: str, names: Sequence[str | None]) -> bytes | None:
        """Decrypt sealed text. Returns None if it is invalid, expired or bound to other names."""
        sealed = _decode(text)
        if sealed is None or sealed[0] != _VERSION:
            return None
        head, salt, rest = sealed[:_HEAD], sealed[_HEAD : _HEAD + _SALT], sealed[_HEAD + _SALT :]
        bound, packed = _bind_names(head, names), None
        for key in self._keys:
            try:
                packed = _cipher(key, salt).decrypt(_NONCE, rest, bound)
            except InvalidTag:
                continue
        if packed is None or int.from_bytes(head[1:]) <= time():
            return None
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(packed, MAX_OPENED)
        return content if unpacking.eof else None


def _cipher(key: bytes, salt: bytes) -> AESGCM:
    """Derive the cipher for one content. Random 96-bit nonces would exhaust a key that many servers share."""
    return AESGCM(blake2b(salt, digest_size=_KEY_BYTES, key=key, person=b"inferstream.seal").digest())


def _bind_names(head: bytes, names: Sequence[str | None]) -> bytes:
    return head + orjson.dumps(names)


def _encode(sealed: bytes) -> str:
    return MARK + base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def _decode(text: str) -> bytes | None:
    """Decode sealed text. Returns None unless `_text` would encode it the same, so encodings are unique."""
    if len(text) > MAX_SEALED or not text.startswith(MARK):
        return None
    encoded = text[len(MARK) :]
    try:
        sealed = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except ValueError:
        return None
    return sealed if len(sealed) > _HEAD + _SALT + _TAG and _encode(sealed) == text else None


def _read_keys(path: Path) -> list[bytes]:
    """Read the keys in a file, one per line in base64. Raises InvalidSettings, which reveals no key."""
    content, status = read_file(path)
    # Kubernetes secrets belong to root and to a group that includes the server.
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
    if not 1 <= len(keys) <= MAX_KEYS:
        raise InvalidSettings(f"{path}: expected 1 to {MAX_KEYS} keys, a line each; there are {len(keys)}")
    return keys
