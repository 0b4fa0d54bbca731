"""From credentials to a principal."""

from collections.abc import Sequence
from hmac import compare_digest
from math import inf
from time import time
from typing import Protocol

from .document import Document
from .errors import Unauthenticated
from .principal import Principal
from .secret import digest_of, id_of

MOST_KEY = 256
"""Characters of a key. A longer text is hashed for nobody."""


class Authenticator(Protocol):
    """One kind of credentials."""

    def authenticate(self, secret: str | None, identities: Sequence[str]) -> Principal | None:
        """The principal of a key or token, or of the names in a verified certificate.

        None for credentials of another kind. Raises Unauthenticated for wrong ones of this kind.
        """


_NOBODY = (bytes(32), Principal("", "", (), ()))
"""Digest and principal of an unknown id."""


class KeyAuthenticator:
    """The keys and subjects of a document. They change as a whole."""

    def __init__(self, document: Document) -> None:
        self._keys: dict[str, tuple[bytes, Principal]] = {}
        self._subjects: dict[str, Principal] = {}
        self.replace(document)

    def replace(self, document: Document) -> None:
        """Take other keys. A key that is not among them is refused from now on."""
        self._keys = {
            entry.id: (bytes.fromhex(entry.sha256), entry.principal_of(entry.id)) for entry in document.keys
        }
        self._subjects = {
            entry.subject: entry.principal_of(f"subject:{entry.subject}") for entry in document.subjects
        }

    def authenticate(self, secret: str | None, identities: Sequence[str] = ()) -> Principal | None:
        """The principal of a key, or of a certificate where there is no key. Raises Unauthenticated for a wrong key.

        An unknown id costs the same as a wrong secret.
        """
        if secret is None:
            return self._of_subject(identities)
        if len(secret) > MOST_KEY:
            raise Unauthenticated
        known = self._keys.get(id_of(secret), _NOBODY)
        if not compare_digest(digest_of(secret), known[0]) or known is _NOBODY:
            raise Unauthenticated
        principal = known[1]
        return principal if principal.expires == inf else _unexpired(principal)

    def _of_subject(self, identities: Sequence[str]) -> Principal | None:
        for name in identities:
            if principal := self._subjects.get(name):
                return _unexpired(principal)
        return None


def _unexpired(principal: Principal) -> Principal:
    if principal.expires <= time():
        raise Unauthenticated("The key has expired.")
    return principal
