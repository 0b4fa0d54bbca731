"""Authentication with API keys and client certificates."""

from collections.abc import Sequence
from hmac import compare_digest
from math import inf
from time import time
from typing import Protocol

from .document import Document
from .errors import Unauthenticated
from .principal import Principal
from .secret import hash_key, parse_id

MAX_KEY = 256
"""Maximum length of a key in characters. Longer strings are rejected without hashing."""


class Authenticator(Protocol):
    """Authenticates one kind of credential."""

    def authenticate(self, secret: str | None, identities: Sequence[str]) -> Principal | None:
        """Return the principal of a key, of a token, or of the names in a verified client certificate.

        Returns None for credentials of another kind. Raises Unauthenticated for invalid ones of this kind.
        """


_NOBODY = (bytes(32), Principal("", "", (), ()))
"""Digest and principal of unknown ids."""


class KeyAuthenticator:
    """Authenticates clients with the keys and certificate subjects of a keys document."""

    def __init__(self, document: Document) -> None:
        self._keys: dict[str, tuple[bytes, Principal]] = {}
        self._subjects: dict[str, Principal] = {}
        self.replace(document)

    def replace(self, document: Document) -> None:
        """Replace all keys. Keys that are missing from the document are rejected from now on."""
        self._keys = {
            entry.id: (bytes.fromhex(entry.sha256), entry.build_principal(entry.id))
            for entry in document.keys
        }
        self._subjects = {
            entry.subject: entry.build_principal(f"subject:{entry.subject}") for entry in document.subjects
        }

    def principals(self) -> list[Principal]:
        """Return the principals of all keys and certificate subjects."""
        return [*(principal for _, principal in self._keys.values()), *self._subjects.values()]

    def authenticate(self, secret: str | None, identities: Sequence[str] = ()) -> Principal | None:
        """Return the principal of a key, or of a client certificate if there is no key.

        Raises Unauthenticated for an invalid key. Rejecting an unknown id takes as long as rejecting a wrong
        secret.
        """
        if secret is None:
            return self._find_subject(identities)
        if len(secret) > MAX_KEY:
            raise Unauthenticated
        known = self._keys.get(parse_id(secret), _NOBODY)
        if not compare_digest(hash_key(secret), known[0]) or known is _NOBODY:
            raise Unauthenticated
        principal = known[1]
        return principal if principal.expires == inf else _check_expiry(principal)

    def _find_subject(self, identities: Sequence[str]) -> Principal | None:
        for name in identities:
            if principal := self._subjects.get(name):
                return _check_expiry(principal)
        return None


def _check_expiry(principal: Principal) -> Principal:
    if principal.expires <= time():
        raise Unauthenticated("The key has expired.")
    return principal
