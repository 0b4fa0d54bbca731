"""Reloads token rules and issuer keys while the server runs."""

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from inferstream.errors import InvalidSettings

from .document import TokenRules

if TYPE_CHECKING:
    from .tokens import TokenAuthenticator

logger = logging.getLogger("inferstream.keys")

PAUSE = 10.0
"""Seconds between attempts after a failure with the same rules, because an issuer may be down for hours."""


class TokenRenewal:
    """Loads the token authenticator for the current rules.

    The old authenticator stays in use until the new one is loaded.

    Raises InvalidSettings if the initial rules cannot be loaded.
    """

    def __init__(self, rules: TokenRules | None) -> None:
        self._rules = rules
        self._fault = ""
        self._next = 0.0
        """The time of the next attempt on the monotonic clock."""
        self.current = None if rules is None else _load_authenticator(rules)
        """The authenticator in use. None if tokens are not accepted."""

    def set_rules(self, rules: TokenRules | None) -> None:
        """Set new rules, which `renew` loads. If None, tokens are rejected immediately."""
        if rules != self._rules:
            self._next = 0.0
        self._rules = rules
        if rules is None:
            self.current = None

    async def renew(self) -> None:
        """Load changed rules, and refresh the issuer's keys when they are due.

        Call it often. Each failure is logged once.
        """
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
                logger.warning("jwt: token settings reloaded")

    def _report(self, fault: str, unexpected: Exception | None = None) -> None:
        self._next = time.monotonic() + PAUSE
        if fault != self._fault:
            self._fault = fault
            logger.error(
                "token settings not reloaded, the previous settings stay in use: %s",
                fault,
                exc_info=unexpected,
            )

    async def _renew(self) -> None:
        rules, current = self._rules, self.current
        if rules is not None and (current is None or current.rules != rules):
            loaded = await asyncio.to_thread(_load_authenticator, rules)
            if rules == self._rules:  # The document may have changed in the meantime.
                self.current = loaded
        elif current is not None:
            await asyncio.to_thread(current.refresh)


def _load_authenticator(rules: TokenRules) -> "TokenAuthenticator":
    from .tokens import TokenAuthenticator  # Imported lazily: needs an extra.

    return TokenAuthenticator(rules)
