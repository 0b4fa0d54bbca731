"""The limits of all principals in one process."""

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
from .ratelimit import headers_of
from .usage import Used

MOST_ACCOUNTS = 4096
"""Principals whose rows a process keeps. It looks up the rows of others."""

MOST_POSTED = 2**14
"""Keys whose use is handed over at once."""

_UNLIMITED = 2**62

_NOWHERE = (0, 0)


class MeteredUse:
    """One call of a principal, from its admission to its end. `tokens` and `bytes` are those so far."""

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
        """Tokens that were counted at the admission; without limits of tokens, more than there can be."""
        self._counted = counted
        self._ended = False
        self.principal = principal
        self.tokens = 0
        self.bytes = size

    @property
    def unlimited(self) -> bool:
        """Whether no limit of tokens ends it."""
        return self.paid == _UNLIMITED

    def charge(self, tokens: int = 1) -> None:
        """Count tokens of a stream before they are sent. Raises LimitExceeded, and then counts nothing."""
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
        """End the call; raises nothing, and does nothing a second time.

        `tokens` are all that it used, if they are known only now. Those beyond a limit delay later calls.
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
        own = self.account.own  # last: while a call is in progress nobody else gets the row
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
    """Admits calls. It is used from one thread. `clock` is in nanoseconds and the same for all processes."""

    def __init__(
        self,
        counters: Counters,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
        saved: bool = True,
    ) -> None:
        """`saved`: whether a process takes and saves the use of keys."""
        self._counters = counters
        self._saved = saved
        self._clock = clock
        self._wall = wall
        self._accounts: dict[str, Account] = {}
        self._unlimited = UnlimitedAccount()
        self._uses: WeakSet[KeyUse] = WeakSet()
        self._ended: deque[KeyUse] = deque()

    def begin(self, principal: Principal, stream: bool = False, tokens: int = 0, size: int = 0) -> MeteredUse:
        """Admit a call, of which `end` has to be called.

        `tokens` are reserved until then; `size` are the bytes of the request. Raises LimitExceeded.
        """
        usage = principal.use or self.use_of(principal)
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
        """The values of `x-ratelimit-*` for a principal that was admitted or refused; none if nothing is known."""
        account = self._accounts.get(principal.name)
        if principal.limits is None or account is None or not account.row.is_current():
            return {}
        now = self._clock()
        requests = account.requests(principal, now)
        tokens = account.tokens(principal.limits, now, self._wall()) if principal.token_limits else None
        return headers_of(requests, tokens)

    def tick(self) -> None:
        """Return leases that are not used up, and hand over what was used and sent. To be called twice a second."""
        for account in self._accounts.values():
            if account.left:
                with suppress(LimitExceeded):
                    self._locked(account, account.return_lease)
        if len(self._accounts) > MOST_ACCOUNTS:
            self._accounts = {
                name: account
                for name, account in self._accounts.items()
                if account.left or account.own[IN_FLIGHT]
            }
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        uses = {*ended, *self._uses}  # one that has ended may be in both
        for use in uses:
            if use.sent:
                with suppress(LimitExceeded):
                    self._settle_sent(use)
        if self._saved:
            used = [use for use in uses if use.own != NO_USE]
            records = [msgspec.json.encode((use.key, use.name, use.own)) for use in used[:MOST_POSTED]]
            with suppress(LimitExceeded):
                if self._counters.post(records):
                    for use in used[:MOST_POSTED]:
                        use.own[:] = NO_USE
            self._ended += [use for use in ended if use.own != NO_USE]

    def restore(self, principal: str, tokens: int) -> None:
        """Count tokens of today from before the start of the server."""
        self._account(principal).restore(tokens, self._clock(), self._wall())

    def take_used(self) -> list[tuple[str, str, Used]]:
        """Each key with its principal and what it has used, in all processes, since the last time."""
        try:
            records = self._counters.take()
        except LimitExceeded:  # another process was stopped while it handed over
            return []
        taken = (msgspec.json.decode(record, type=tuple[str, str, list[int]]) for record in records)
        return [(key, principal, Used(*own)) for key, principal, own in taken]

    def lease(self, use: MeteredUse, account: Account, over: int, tokens: int) -> None:
        limits = use.principal.limits or NO_LIMITS
        try:
            self._locked(account, lambda: account.lease(limits, over, self._clock(), self._wall()))
        except LimitExceeded:
            use.tokens -= tokens
            raise

    def receive(self, principal: Principal, size: int) -> None:
        """Count bytes of a message behind the request of a call. Raises LimitExceeded, and then counts nothing."""
        usage = principal.use or self.use_of(principal)
        if usage.sent:
            self._settle_sent(usage)
        if principal.byte_limit and (limits := principal.limits):
            account = self._accounts.get(principal.name) or self._account(principal.name)
            self._locked(account, lambda: account.take_bytes(limits, size, self._clock()))
        usage.own[BYTES] += size

    def use_of(self, principal: Principal) -> KeyUse:
        """What its key uses: `principal.use` from now on. Bytes of responses are added there, as `sent`."""
        use = principal.use = KeyUse(principal, self._ended)
        self._uses.add(use)
        return use

    def _settle_sent(self, use: KeyUse) -> None:
        """Count bytes of responses. If there were fewer, later calls wait for them. Raises LimitExceeded."""
        limits = use.limits
        if limits is not None and limits.bytes_per_second is not None:
            account = self._accounts.get(use.name) or self._account(use.name)
            self._locked(account, lambda: account.overdraw_bytes(limits, use.sent, self._clock()))
        use.own[BYTES] += use.sent
        use.sent = 0

    def settle(self, account: Account, tokens: int, unused: int, counted: tuple[int, int]) -> None:
        """Count tokens that a call has used beyond those of its admission, or return those that it has not used."""
        try:
            if tokens > 0:
                self._locked(account, lambda: account.overdraw(tokens, self._clock(), self._wall()))
            if unused > 0:
                self._locked(account, lambda: account.give_back(unused, *counted))
        except LimitExceeded:  # another process was stopped while it had the row; `tick` settles
            account.left += unused - max(tokens, 0)

    def _locked(self, account: Account, change: Callable[[], None]) -> None:
        self._lock(account)
        try:
            change()
        finally:
            account.row.unlock()

    def _lock(self, account: Account) -> None:
        """Lock its row, which is a new one where the account was idle and another name took it."""
        while not account.row.lock():
            account.move(self._counters.row(account.name, self._clock(), self._wall()))

    def _account(self, name: str) -> Account:
        row = self._counters.row(name, self._clock(), self._wall())
        account = self._accounts[name] = Account(name, row, self._counters.count)
        return account
