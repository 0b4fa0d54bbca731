"""Admits calls according to the limits of their principals, in one process."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakSet

import msgspec

from .account import Account, UnlimitedAccount
from .counters import IN_FLIGHT, STREAMS, Counters
from .errors import LimitExceeded
from .principal import BYTES, NO_LIMITS, NO_USE, REFUSED, REQUESTS, TOKENS, KeyUse, Principal
from .ratelimit import build_headers
from .usage import Used

MAX_ACCOUNTS = 4096
"""Maximum number of accounts that a process caches.

The rows of other principals are looked up on each use.
"""

MAX_POSTED = 2**14
"""Maximum number of usage records that are posted at once."""

_UNLIMITED = 2**62

_NOWHERE = (0, 0)


class MeteredUse:
    """One call of a principal, from admission to its end. `tokens` and `bytes` are the totals so far."""

    __slots__ = (
        "_counted",
        "_ended",
        "_quotas",
        "_stream",
        "_usage",
        "account",
        "bytes",
        "paid",
        "principal",
        "tokens",
    )

    def __init__(
        self,
        quotas: "Quotas",
        account: Account,
        usage: KeyUse,
        principal: Principal,
        stream: bool,
        paid: int,
        counted: tuple[int, int],
        size: int,
    ) -> None:
        self._quotas = quotas
        self.account = account
        self._usage = usage
        self._stream = stream
        self.paid = paid
        """Tokens that were reserved at admission. A very large number if tokens are unlimited."""
        self._counted = counted
        self._ended = False
        self.principal = principal
        self.tokens = 0
        self.bytes = size

    @property
    def unlimited(self) -> bool:
        """Whether the call has no token limit."""
        return self.paid == _UNLIMITED

    def charge(self, tokens: int = 1) -> None:
        """Count tokens of a stream before they are sent. Raises LimitExceeded without counting anything."""
        self.tokens += tokens
        if self.tokens > self.paid:
            account = self.account
            over = self.tokens - self.paid
            if over > tokens:
                over = tokens
            if over <= account.left:
                account.left -= over
            else:
                self._quotas.lease(self, account, over, tokens)

    def end(self, tokens: int | None = None) -> None:
        """End the call. Never raises, and has no effect if called again.

        `tokens` is the total, if it is known only now. Tokens beyond a limit delay later calls.
        """
        if self._ended:
            return
        self._ended = True
        before = self.tokens
        if tokens is not None and tokens > before:
            self.tokens = tokens
        paid = self.paid
        if paid != _UNLIMITED and self.tokens != max(before, paid):
            self._quotas.settle(
                self.account, self.tokens - max(before, paid), max(paid - self.tokens, 0), self._counted
            )
        own = self.account.own  # Must be last: the row cannot be reassigned while a call is in progress.
        own[IN_FLIGHT] -= 1
        if self._stream:
            own[STREAMS] -= 1
        usage = self._usage.own
        usage[REQUESTS] += 1
        if self.tokens:
            usage[TOKENS] += self.tokens
        if self.bytes:
            usage[BYTES] += self.bytes


class Quotas:
    """Admits calls. Use it from one thread. `clock` is in nanoseconds and must be shared by all processes."""

    def __init__(
        self,
        counters: Counters,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
        saved: bool = True,
    ) -> None:
        """Set `saved` if a process saves the usage of keys."""
        self._counters = counters
        self._saved = saved
        self._clock = clock
        self._wall = wall
        self._accounts: dict[str, Account] = {}
        self._unlimited = UnlimitedAccount()
        self._uses: WeakSet[KeyUse] = WeakSet()
        self._ended: deque[KeyUse] = deque()

    def begin(self, principal: Principal, stream: bool = False, tokens: int = 0, size: int = 0) -> MeteredUse:
        """Admit a call. The caller must call `end` on the result.

        Reserves `tokens` until then. `size` is the request size in bytes. Raises LimitExceeded.
        """
        usage = principal.use or self.create_use(principal)
        if usage.sent:
            self._settle_sent(usage)
        limits = principal.limits
        if limits is None:
            return MeteredUse(self, self._unlimited, usage, principal, stream, _UNLIMITED, _NOWHERE, size)
        wall = self._wall() if principal.token_limits else 0.0
        try:
            account = self._accounts.get(principal.name) or self._account(principal.name)
            self._lock(account)
            try:
                counted = account.admit(principal, limits, stream, tokens, size, self._clock(), wall)
            finally:
                account.row.unlock()
        except LimitExceeded:
            usage.own[REFUSED] += 1
            raise
        paid = tokens if principal.token_limits else _UNLIMITED
        return MeteredUse(self, account, usage, principal, stream, paid, counted, size)

    def headers(self, principal: Principal) -> dict[str, str]:
        """Return the values of the `x-ratelimit-*` headers for a principal.

        Empty if it has no limits or its row was reassigned.
        """
        account = self._accounts.get(principal.name)
        if principal.limits is None or account is None or not account.row.is_current():
            return {}
        now = self._clock()
        requests = account.requests(principal, now)
        tokens = account.tokens(principal.limits, now, self._wall()) if principal.token_limits else None
        return build_headers(requests, tokens)

    def left(self, principal: Principal) -> dict[str, int]:
        """Return how many requests and tokens a principal may use now. Empty without such limits.

        Raises LimitExceeded if the counters have no room for another principal.
        """
        if principal.limits is None:
            return {}
        account = self._accounts.get(principal.name) or self._account(principal.name)
        now, wall = self._clock(), self._wall()
        self._with_lock(account, account.return_lease)
        self._with_lock(account, lambda: account.roll(now, wall))
        windows = {
            "requests": account.requests(principal, now),
            "tokens": account.tokens(principal.limits, now, wall) if principal.token_limits else None,
        }
        return {name: window.left for name, window in windows.items() if window is not None}

    def tick(self) -> None:
        """Return unused leases, count sent bytes and post usage records. Call it twice a second."""
        for account in self._accounts.values():
            if account.left:
                with suppress(LimitExceeded):
                    self._with_lock(account, account.return_lease)
        if len(self._accounts) > MAX_ACCOUNTS:
            self._accounts = {
                name: account
                for name, account in self._accounts.items()
                if account.left or account.own[IN_FLIGHT]
            }
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        uses = {*ended, *self._uses}  # The usage of a freed key can be in both.
        for use in uses:
            if use.sent:
                with suppress(LimitExceeded):
                    self._settle_sent(use)
        if self._saved:
            used = [use for use in uses if use.own != NO_USE]
            records = [msgspec.json.encode((use.key, use.name, use.own)) for use in used[:MAX_POSTED]]
            with suppress(LimitExceeded):
                if self._counters.post(records):
                    for use in used[:MAX_POSTED]:
                        use.own[:] = NO_USE
            self._ended += [use for use in ended if use.own != NO_USE]

    def restore(self, principal: str, tokens: int) -> None:
        """Count tokens that were used today before the server started."""
        self._account(principal).restore(tokens, self._clock(), self._wall())

    def take_usage(self) -> list[tuple[str, str, Used]]:
        """Return the usage of each key and principal in all processes since the last call."""
        try:
            records = self._counters.take()
        except LimitExceeded:  # Another process was suspended while it posted.
            return []
        taken = (msgspec.json.decode(record, type=tuple[str, str, list[int]]) for record in records)
        return [(key, principal, Used(*own)) for key, principal, own in taken]

    def lease(self, use: MeteredUse, account: Account, over: int, tokens: int) -> None:
        limits = use.principal.limits or NO_LIMITS
        try:
            self._with_lock(account, lambda: account.lease(limits, over, self._clock(), self._wall()))
        except LimitExceeded:
            use.tokens -= tokens
            raise

    def receive(self, principal: Principal, size: int) -> None:
        """Count the bytes of a message that follows the request of a call.

        Raises LimitExceeded without counting anything.
        """
        usage = principal.use or self.create_use(principal)
        if usage.sent:
            self._settle_sent(usage)
        if principal.byte_limit and (limits := principal.limits):
            account = self._accounts.get(principal.name) or self._account(principal.name)
            self._with_lock(account, lambda: account.take_bytes(limits, size, self._clock()))
        usage.own[BYTES] += size

    def create_use(self, principal: Principal) -> KeyUse:
        """Create the usage counter of a key and set `principal.use`.

        Response bytes are added to its `sent`.
        """
        use = principal.use = KeyUse(principal, self._ended)
        self._uses.add(use)
        return use

    def _settle_sent(self, use: KeyUse) -> None:
        """Count response bytes. If this exceeds the limit, later calls are delayed. Raises LimitExceeded."""
        limits = use.limits
        if limits is not None and limits.bytes_per_second is not None:
            account = self._accounts.get(use.name) or self._account(use.name)
            self._with_lock(account, lambda: account.overdraw_bytes(limits, use.sent, self._clock()))
        use.own[BYTES] += use.sent
        use.sent = 0

    def settle(self, account: Account, tokens: int, unused: int, counted: tuple[int, int]) -> None:
        """Count tokens beyond the reservation of a call, or return reserved tokens that it did not use."""
        try:
            if tokens > 0:
                self._with_lock(account, lambda: account.overdraw(tokens, self._clock(), self._wall()))
            if unused > 0:
                self._with_lock(account, lambda: account.give_back(unused, *counted))
        # Another process was suspended while it held the lock. `tick` settles the difference.
        except LimitExceeded:
            account.left += unused - max(tokens, 0)

    def _with_lock(self, account: Account, change: Callable[[], None]) -> None:
        self._lock(account)
        try:
            change()
        finally:
            account.row.unlock()

    def _lock(self, account: Account) -> None:
        """Lock the row of an account. If the row was reassigned while the account was idle, use a new one."""
        while not account.row.lock():
            account.use_row(self._counters.row(account.name, self._clock(), self._wall()))

    def _account(self, name: str) -> Account:
        row = self._counters.row(name, self._clock(), self._wall())
        account = self._accounts[name] = Account(name, row, self._counters.count)
        return account
