"""The use of one principal, and whether there is more."""

from typing import NamedTuple

from .counters import CELLS, IN_FLIGHT, STREAMS, Row
from .errors import LimitExceeded
from .principal import KeyLimits, Principal
from .words import BYTES, DAY, DAY_SECONDS, FIRST, MINUTE, REQUESTS, SLOT, SLOT_NANOSECONDS, SLOTS, TODAY

_SECOND = 1_000_000_000


class Window(NamedTuple):
    """A limit, what is left of it, and the nanoseconds until all of it is there again."""

    limit: int
    left: int
    reset: int


class Account:
    """The counters of one principal, seen by one process.

    Requests and bytes are buckets, each kept as the virtual time at which it is full again, which no clock that jumps
    back refills. Tokens of a minute are counted in half-second parts, so that no minute has more than the limit.
    Those of a day are counted by the date in UTC, which goes back only after a whole day of `now`. So a jump back
    refills nothing, and a jump forward locks nobody out for more than a day. Keys of one principal count together,
    each with its own limits. Methods that change the words are called with the row locked.
    """

    __slots__ = ("_day_began", "_day_seen", "_divisor", "_lease_counted", "left", "name", "own", "row")

    def __init__(self, name: str, row: Row, count: int) -> None:
        self.name = name
        self.move(row)
        self._divisor = 2 if count == 1 else 32 * count
        self._lease_counted = (0, 0)
        self._day_seen = self._day_began = 0
        self.left = 0
        """Tokens of the lease: counted in the row, and not used yet. Below 0: used, and not counted yet."""

    def move(self, row: Row) -> None:
        """Count in another row, because the account was idle and its row is another's now."""
        self.row = row
        self.own = row.own

    def admit(
        self,
        principal: Principal,
        limits: KeyLimits,
        stream: bool,
        tokens: int,
        size: int,
        now: int,
        wall: float,
    ) -> tuple[int, int]:
        """Count a call, `tokens` and `size` bytes, or nothing at all and raise LimitExceeded.

        Returns where the tokens were counted, for `give_back`.
        """
        words = self.row.words
        most = limits.in_flight
        if most is not None and self.row.total(IN_FLIGHT) >= most:
            raise LimitExceeded("in_flight", most, _SECOND if most else None)
        most = limits.streams
        if stream and most is not None and self.row.total(STREAMS) >= most:
            raise LimitExceeded("streams", most, _SECOND if most else None)
        full_requests = full_bytes = 0
        rate = limits.requests_per_second
        if rate is not None:
            full_requests = max(words[REQUESTS], now) + principal.request_nanoseconds
            over = full_requests - now - principal.request_window
            if over > 0 or not principal.request_window:
                raise _too_many_requests(principal, limits, over)
        if limits.bytes_per_second is not None:
            full_bytes = self._bytes_until(limits, size, now)
        counted = (0, 0)
        if principal.token_limits:
            counted = self._take(limits, tokens, now, wall)
        if full_requests:
            words[REQUESTS] = full_requests
        if full_bytes:
            words[BYTES] = full_bytes
        self.own[IN_FLIGHT] += 1
        if stream:
            self.own[STREAMS] += 1
        return counted

    def lease(self, limits: KeyLimits, tokens: int, now: int, wall: float) -> None:
        """Take what the lease lacks for `tokens` that are wanted now, and some more for later.

        Raises LimitExceeded if they are not there.
        """
        need = tokens - self.left
        self._roll(now, wall)
        there = self._there(limits)
        if need > there:
            raise self._exceeded(limits, need, now, wall)
        taken = max(need, there // self._divisor)
        self._lease_counted = self._count(taken)
        self.left += taken - tokens

    def overdraw(self, tokens: int, now: int, wall: float) -> None:
        """Count tokens that were used already. If there were fewer, later calls wait for them."""
        self._roll(now, wall)
        used = max(min(tokens, self.left), 0)
        self.left -= used
        self._count(tokens - used)

    def take_bytes(self, limits: KeyLimits, size: int, now: int) -> None:
        """Count bytes. Raises LimitExceeded if they are not there."""
        self.row.words[BYTES] = self._bytes_until(limits, size, now)

    def overdraw_bytes(self, limits: KeyLimits, size: int, now: int) -> None:
        """Count bytes that were sent already. If there were fewer, later calls wait for them."""
        if most := limits.bytes_per_second:
            self.row.words[BYTES] = max(self.row.words[BYTES], now) + -(-size * _SECOND // most)

    def give_back(self, tokens: int, slot: int, day: int) -> None:
        """Return tokens that were counted in a part of the window and not used."""
        words = self.row.words
        if words[SLOT] - slot < SLOTS:
            words[FIRST + slot % SLOTS] -= tokens
            words[MINUTE] -= tokens
        if words[DAY] == day:
            words[TODAY] -= tokens

    def return_lease(self) -> None:
        """Return what nobody has used of the lease, so that no minute has tokens of another one."""
        left, self.left = self.left, 0
        if left < 0:
            self._count(-left)
        else:
            self.give_back(left, *self._lease_counted)

    def restore(self, tokens: int, now: int, wall: float) -> None:
        """Count tokens that were used today before the server started."""
        words = self.row.words
        self._roll_day(now, wall)
        words[TODAY] += tokens

    def requests(self, principal: Principal, now: int) -> Window | None:
        """The bucket of requests; None without a limit."""
        interval = principal.request_nanoseconds
        if not interval:
            return None
        wait = max(self.row.words[REQUESTS] - now, 0)
        return Window(principal.burst, max((principal.request_window - wait) // interval, 0), wait)

    def tokens(self, limits: KeyLimits, now: int, wall: float) -> Window | None:
        """The limit of tokens of which the least is left; None without one. As of the last call."""
        words = self.row.words
        window = None
        if limits.tokens_per_minute is not None:
            left = limits.tokens_per_minute - words[MINUTE] + self.left
            window = Window(limits.tokens_per_minute, max(left, 0), self._until_empty(now))
        if limits.tokens_per_day is not None:
            left = max(limits.tokens_per_day - words[TODAY] + self.left, 0)
            if window is None or left < window.left:
                window = Window(limits.tokens_per_day, left, self._until_tomorrow(wall))
        return window

    def _take(self, limits: KeyLimits, tokens: int, now: int, wall: float) -> tuple[int, int]:
        """Count `tokens`; without any, see that there is one."""
        self._roll(now, wall)
        if tokens and self.left:
            self.return_lease()
        need = tokens or 1
        if need > self._there(limits) + self.left:
            raise self._exceeded(limits, need, now, wall)
        return self._count(tokens) if tokens else (0, 0)

    def _bytes_until(self, limits: KeyLimits, size: int, now: int) -> int:
        """The virtual time after `size` bytes. More than those of a second need a full bucket. Raises LimitExceeded."""
        most = limits.bytes_per_second
        if not most:
            raise LimitExceeded("bytes_per_second", 0, None)
        until = max(self.row.words[BYTES], now)
        cost = -(-size * _SECOND // most)
        over = until - now + min(max(cost, 1), _SECOND) - _SECOND
        if over > 0:
            raise LimitExceeded("bytes_per_second", most, over)
        return until + cost

    def _there(self, limits: KeyLimits) -> int:
        words = self.row.words
        minute, day = limits.tokens_per_minute, limits.tokens_per_day
        if minute is None:
            assert day is not None
            return day - words[TODAY]
        left = minute - words[MINUTE]
        return left if day is None else min(left, day - words[TODAY])

    def _count(self, tokens: int) -> tuple[int, int]:
        """Count tokens now. Returns part of the window and day, for `give_back`."""
        words = self.row.words
        words[MINUTE] += tokens
        words[TODAY] += tokens
        words[FIRST + words[SLOT] % SLOTS] += tokens  # last: `_roll` corrects a sum that is too large
        return words[SLOT], words[DAY]

    def _roll(self, now: int, wall: float) -> None:
        """Leave behind the parts of the window that are over. A clock that jumps back leaves nothing behind."""
        words = self.row.words
        self._roll_day(now, wall)
        slot = now // SLOT_NANOSECONDS
        last = words[SLOT]
        if slot > last:
            for each in range(max(last + 1, slot - SLOTS + 1), slot + 1):
                words[FIRST + each % SLOTS] = 0
            words[MINUTE] = sum(words[FIRST : FIRST + SLOTS])
            words[SLOT] = slot

    def _roll_day(self, now: int, wall: float) -> None:
        words = self.row.words
        today = int(wall // DAY_SECONDS)
        if words[DAY] != self._day_seen:  # the first time, or another process has begun it
            self._day_seen, self._day_began = words[DAY], now
        is_over = today < words[DAY] and now - self._day_began >= DAY_SECONDS * _SECOND
        if today > words[DAY] or is_over:
            words[TODAY] = 0
            words[DAY] = self._day_seen = today
            self._day_began = now

    def _until_tomorrow(self, wall: float) -> int:
        """Nanoseconds until the tokens of a day are there again, at most a day."""
        return int(min((self.row.words[DAY] + 1) * DAY_SECONDS - wall, DAY_SECONDS) * _SECOND)

    def _until_empty(self, now: int) -> int:
        """Nanoseconds until the last part of the window with tokens is over."""
        words = self.row.words
        slot = words[SLOT]
        for each in range(slot, slot - SLOTS, -1):
            if words[FIRST + each % SLOTS]:
                return max((each + SLOTS) * SLOT_NANOSECONDS - now, 0)
        return 0

    def _exceeded(self, limits: KeyLimits, need: int, now: int, wall: float) -> LimitExceeded:
        words = self.row.words
        minute, day = limits.tokens_per_minute, limits.tokens_per_day
        if day is not None and need > day - words[TODAY]:
            return LimitExceeded("tokens_per_day", day, self._until_tomorrow(wall) if need <= day else None)
        assert minute is not None
        lacking = need - (minute - words[MINUTE])
        slot = words[SLOT]
        for each in range(slot - SLOTS + 1, slot + 1):
            lacking -= words[FIRST + each % SLOTS]
            if lacking <= 0 and need <= minute:
                return LimitExceeded("tokens_per_minute", minute, (each + SLOTS) * SLOT_NANOSECONDS - now)
        return LimitExceeded("tokens_per_minute", minute, None)


class UnlimitedAccount(Account):
    """The account of all calls without limits. It has no row, because nothing asks how many are in progress."""

    __slots__ = ()

    def __init__(self) -> None:
        self.own = memoryview(bytearray(CELLS * 8)).cast("q")


def _too_many_requests(principal: Principal, limits: KeyLimits, over: int) -> LimitExceeded:
    if limits.burst == 0:
        return LimitExceeded("burst", 0, None)
    return LimitExceeded(
        "requests_per_second", limits.requests_per_second or 0, over if principal.request_window else None
    )
