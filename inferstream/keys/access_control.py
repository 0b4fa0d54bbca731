"""All about keys that a server has: what its doors call."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence

from inferstream import Settings
from inferstream.plugins.keys.settings import KeysSettings

from ..types import Headers
from .authenticator import Authenticator, KeyAuthenticator
from .counters import Counters
from .credentials import Shown, credential
from .document import TOKEN_KEY, Document
from .errors import LimitExceeded, Unauthenticated
from .file import VARIABLE, KeySource
from .principal import Principal
from .quotas import Quotas
from .renewal import TokenRenewal
from .usage import UsageFile, Used

logger = logging.getLogger("inferstream.keys")

TICK = 0.5
"""Seconds from one look at the leases to the next."""

LOOK = 2
"""Ticks from one look at the file of keys to the next."""

SAVE = 10
"""Ticks from one look at what is to be saved to the next."""

MOST_KNOWN = 1024
"""Headers with a key that are known by their bytes."""


class AccessControl:
    """Keys, limits and use of one process of a server. It is used from the event loop alone.

    The process with `saves` has the usage file: the leader of several front ends, or the only process.
    Raises InvalidSettings for a broken file.
    """

    def __init__(self, settings: Settings, counters: Counters | None = None, saves: bool = True) -> None:
        files = settings.section(KeysSettings)
        self._source = KeySource(files.keys_file)
        document = self._source.read()
        self._keys = KeyAuthenticator(document)
        self._tokens = TokenRenewal(document.jwt)
        self.known: dict[Shown, Principal] = {}
        """Principals by the headers that they have shown since the keys were last looked at. They may have expired.

        A lookup tells nothing of a key by its time, because the hash of bytes is secret, and bytes are compared only
        where hashes are equal.
        """
        self.quotas = Quotas(counters or Counters(), saved=files.usage_file is not None)
        self._saving = threading.Lock()
        self._usage = UsageFile(files.usage_file) if files.usage_file and saves else None
        if self._usage is not None:
            free = _free_of_tokens(document)
            apart = document.jwt is None or not document.jwt.shared_principals
            for key, principal, tokens in self._usage.today(time.time()):
                if apart and key.startswith(TOKEN_KEY):
                    principal = key  # an earlier version wrote the name that a key may have too
                if not free(key):
                    self._restore(principal, tokens)

    def _restore(self, principal: str, tokens: int) -> None:
        try:
            self.quotas.restore(principal, tokens)
        except LimitExceeded as error:  # too many names, of a day with many starts
            logger.warning("the use of %s today is not known any more: %s", principal, error.message)

    def authenticate(self, shown: Shown, headers: Headers) -> Principal:
        """The principal of a request, by its headers that may hold a key. Raises Unauthenticated."""
        secret = credential(shown)
        kinds: tuple[Authenticator | None, ...] = (self._tokens.current, self._keys)
        for kind in kinds:
            if kind is not None and (principal := kind.authenticate(secret, headers.identities)):
                if secret is not None:
                    if len(self.known) == MOST_KNOWN:
                        self.known.clear()
                    self.known[shown] = principal
                return principal
        raise Unauthenticated

    async def run(self) -> None:
        """Read the keys again when they change, return leases and save the use, until cancelled."""
        tick = 0
        renewing = asyncio.create_task(self._tokens.renew())
        try:
            while True:
                await asyncio.sleep(TICK)
                tick += 1
                try:
                    self.quotas.tick()
                    if tick % LOOK == 0:
                        await self.read_again()
                        if renewing.done():  # an issuer may take long, and keys are revoked meanwhile
                            renewing = asyncio.create_task(self._tokens.renew())
                    if tick % SAVE == 0:
                        await self.save()
                except Exception:  # a timer that ends would let revoked keys in
                    logger.exception("the timer of the keys failed")
        finally:
            renewing.cancel()

    async def read_again(self) -> None:
        """Take the keys of the file if it has changed; those of a broken file are not taken.

        What it says of tokens counts with the next `renew`, unless it takes none.
        """
        document = await asyncio.to_thread(self._source.read_again)
        self.known.clear()
        if document is not None:
            self._keys.replace(document)
            self._tokens.want(document.jwt)

    async def save(self) -> None:
        """Save what the keys have used, if there is a file for it."""
        if self._usage is not None:
            await asyncio.to_thread(self._save, self._usage, self.quotas.take_used())

    def _save(self, file: UsageFile, used: Sequence[tuple[str, str, Used]]) -> None:
        with self._saving:
            now = time.time()
            for key, principal, its in used:
                file.add(key, principal, its, now)
            file.save()

    async def close(self) -> None:
        """Save. `run` has been cancelled."""
        self.quotas.tick()
        await self.save()


def keys_configured(settings: Settings) -> bool:
    """Whether the server asks for keys."""
    return settings.section(KeysSettings).keys_file is not None or bool(os.environ.get(VARIABLE))


def names_principals(settings: Settings) -> bool:
    """Whether clients have names, by which they share models: those of keys, or those that a gateway tells."""
    return keys_configured(settings) or bool(settings.section(KeysSettings).trusted_proxies)


def shares_responses(settings: Settings) -> bool:
    """Whether all clients share cached responses."""
    return not keys_configured(settings) or settings.section(KeysSettings).share_cache


def _free_of_tokens(document: Document) -> Callable[[str], bool]:
    """Whether a key has no limit of tokens, and so uses nothing of what its principal has. One that is gone had one."""
    free = {entry.id for entry in document.keys if not entry.limits.of_tokens}
    free |= {f"subject:{entry.subject}" for entry in document.subjects if not entry.limits.of_tokens}
    signed = document.jwt is not None and not document.jwt.limits.of_tokens
    return lambda key: key in free or (signed and key.startswith(TOKEN_KEY))
