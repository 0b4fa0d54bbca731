"""The keys, quotas and usage totals of one server process."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence

from inferstream import Settings
from inferstream.types import Headers

from .authenticator import Authenticator, KeyAuthenticator
from .counters import Counters
from .credentials import Shown, find_credential
from .document import TOKEN_KEY, Document
from .errors import LimitExceeded, Unauthenticated
from .file import VARIABLE, KeySource
from .principal import Principal
from .quotas import Quotas
from .renewal import TokenRenewal
from .settings import KeysSettings
from .usage import UsageFile, Used

logger = logging.getLogger("inferstream.keys")

TICK = 0.5
"""Seconds between checks of token leases."""

LOOK = 2
"""Ticks between checks of the keys file."""

SAVE = 10
"""Ticks between saves of the usage file."""

MAX_KNOWN = 1024
"""The maximum number of entries in the cache of authenticated headers."""


class AccessControl:
    """Authentication, quotas and usage totals of one server process. Use it only from the event loop.

    Set `saves` for the process that writes the usage file: the first front end, or the only process. Raises
    InvalidSettings if a file is invalid.
    """

    def __init__(self, settings: Settings, counters: Counters | None = None, saves: bool = True) -> None:
        files = settings.section(KeysSettings)
        self._source = KeySource(files.keys_file)
        document = self._source.read()
        self._keys = KeyAuthenticator(document)
        self._tokens = TokenRenewal(document.jwt)
        self.known: dict[Shown, Principal] = {}
        """Principals by the credential headers of earlier requests. Cleared when the keys file is checked.

        An entry may have expired. Lookups do not leak keys through timing, because the hash of bytes is
        randomized and bytes are compared only if their hashes are equal.
        """
        self.quotas = Quotas(counters or Counters(), saved=files.usage_file is not None)
        self._saving = threading.Lock()
        self._usage = UsageFile(files.usage_file) if files.usage_file and saves else None
        if self._usage is not None:
            free = _build_unlimited_filter(document)
            apart = document.jwt is None or not document.jwt.shared_principals
            for key, principal, tokens in self._usage.today(time.time()):
                if apart and key.startswith(TOKEN_KEY):
                    principal = key  # Earlier versions stored the plain name, which a key can also have.
                if not free(key):
                    self._restore(principal, tokens)

    def _restore(self, principal: str, tokens: int) -> None:
        try:
            self.quotas.restore(principal, tokens)
        except LimitExceeded as error:  # More names than rows, after many restarts on one day.
            logger.warning("usage of %s today is lost: %s", principal, error.message)

    def authenticate(self, shown: Shown, headers: Headers) -> Principal:
        """Authenticate a request by its credential headers. Raises Unauthenticated."""
        secret = find_credential(shown)
        kinds: tuple[Authenticator | None, ...] = (self._tokens.current, self._keys)
        for kind in kinds:
            if kind is not None and (principal := kind.authenticate(secret, headers.identities)):
                if secret is not None:
                    if len(self.known) == MAX_KNOWN:
                        self.known.clear()
                    self.known[shown] = principal
                return principal
        raise Unauthenticated

    def principals(self) -> list[Principal]:
        """Return the principals of all keys and certificate subjects, but not of signed tokens."""
        return self._keys.principals()

    async def run(self) -> None:
        """Reload changed keys, return leases and save usage until cancelled."""
        tick = 0
        renewing = asyncio.create_task(self._tokens.renew())
        try:
            while True:
                await asyncio.sleep(TICK)
                tick += 1
                try:
                    self.quotas.tick()
                    if tick % LOOK == 0:
                        await self.reload_keys()
                        # An issuer can be slow, and keys must be revocable in the meantime.
                        if renewing.done():
                            renewing = asyncio.create_task(self._tokens.renew())
                    if tick % SAVE == 0:
                        await self.save()
                except Exception:  # If the timer stopped, revoked keys would stay valid.
                    logger.exception("periodic key check failed")
        finally:
            renewing.cancel()

    async def reload_keys(self) -> None:
        """Reload the keys file if it has changed. If the new file is invalid, the old keys stay valid.

        Changed token rules take effect at the next `renew`. If the new file has no token rules, tokens are
        rejected immediately.
        """
        document = await asyncio.to_thread(self._source.read_if_changed)
        self.known.clear()
        if document is not None:
            self._keys.replace(document)
            self._tokens.set_rules(document.jwt)

    async def save(self) -> None:
        """Save the usage of the keys if a usage file is configured."""
        if self._usage is not None:
            await asyncio.to_thread(self._save, self._usage, self.quotas.take_usage())

    def _save(self, file: UsageFile, used: Sequence[tuple[str, str, Used]]) -> None:
        with self._saving:
            now = time.time()
            for key, principal, its in used:
                file.add(key, principal, its, now)
            file.save()

    async def close(self) -> None:
        """Save the usage one last time. `run` must have been cancelled."""
        self.quotas.tick()
        await self.save()


def has_keys(settings: Settings) -> bool:
    """Whether the server requires keys."""
    return settings.section(KeysSettings).keys_file is not None or bool(os.environ.get(VARIABLE))


def names_principals(settings: Settings) -> bool:
    """Whether clients are identified by name, so that fair queueing applies.

    Names are taken from keys or from the headers of a trusted gateway.
    """
    return has_keys(settings) or bool(settings.section(KeysSettings).trusted_proxies)


def shares_responses(settings: Settings) -> bool:
    """Whether all clients share cached responses."""
    return not has_keys(settings) or settings.section(KeysSettings).share_cache


def _build_unlimited_filter(document: Document) -> Callable[[str], bool]:
    """Return a predicate for keys without token limits, which do not use up the tokens of their principal.

    Keys that no longer exist are assumed to have had token limits.
    """
    free = {entry.id for entry in document.keys if not entry.limits.of_tokens}
    free |= {f"subject:{entry.subject}" for entry in document.subjects if not entry.limits.of_tokens}
    signed = document.jwt is not None and not document.jwt.limits.of_tokens
    return lambda key: key in free or (signed and key.startswith(TOKEN_KEY))
