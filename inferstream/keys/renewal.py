"""The tokens that a server takes, as the document of keys changes while it runs."""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from ..errors import InvalidSettings
from .document import TokenRules

if TYPE_CHECKING:
    from .tokens import TokenAuthenticator

logger = logging.getLogger("inferstream.keys")

PAUSE = 10.0
"""Seconds from an attempt that failed to the next one by the same rules. An issuer may be down for long."""


class TokenRenewal:
    """Loads tokens by the rules of the document; the old ones count until those of new rules are there.

    Raises InvalidSettings for rules that cannot be loaded at the start.
    """

    def __init__(self, rules: TokenRules | None) -> None:
        self._rules = rules
        self._fault = ""
        self._next = 0.0
        """When to try again, on the monotonic clock."""
        self.current = None if rules is None else _loaded(rules)
        """Those that count now; None without any."""

    def want(self, rules: TokenRules | None) -> None:
        """Take other rules, which `renew` loads. Without rules no token counts from now on."""
        if rules != self._rules:
            self._next = 0.0
        self._rules = rules
        if rules is None:
            self.current = None

    async def renew(self) -> None:
        """Load new rules, and the issuer's keys from time to time. To be called often; a fault is logged once."""
        if time.monotonic() < self._next:
            return
        try:
            await self._renew()
        except InvalidSettings as error:
            self._report(error.message)
        except Exception as error:
            self._report(repr(error), error)
        else:
            if self._fault:
                self._fault = ""
                logger.warning("jwt: the tokens are loaded again")

    def _report(self, fault: str, unexpected: Exception | None = None) -> None:
        self._next = time.monotonic() + PAUSE
        if fault != self._fault:
            self._fault = fault
            logger.error("the tokens stay as they were: %s", fault, exc_info=unexpected)

    async def _renew(self) -> None:
        rules, current = self._rules, self.current
        if rules is not None and (current is None or current.rules != rules):
            loaded = await asyncio.to_thread(_loaded, rules)
            if rules == self._rules:  # the document may have changed meanwhile
                self.current = loaded
        elif current is not None:
            await asyncio.to_thread(current.refresh)


def _loaded(rules: TokenRules) -> "TokenAuthenticator":
    from .tokens import TokenAuthenticator  # late: it needs an extra

    return TokenAuthenticator(rules)
