"""Rate-limit accounting for one principal."""

from typing import NamedTuple

from .counters import CELLS, IN_FLIGHT, STREAMS, Row
from .errors import LimitExceeded
from .principal import KeyLimits, Principal
from .words import BYTES, DAY, DAY_SECONDS, FIRST, MINUTE, REQUESTS, SLOT, SLOT_NANOSECONDS, SLOTS, TODAY

_SECOND = 1_000_000_000


class Window(NamedTuple):
    """The state of a limit: its size, the remaining amount, and the nanoseconds until it is full again."""

    limit: int
    left: int
    reset: int


class Account:
    """The counters of one principal, as seen by one process.

    Requests and bytes are limited by token buckets. Each is stored as the virtual time at which the bucket is
    full, so a clock that jumps back does not refill it. Tokens per minute are counted in half-second slots,
    so that no window of one minute exceeds the limit. Tokens per day are counted by UTC date. The date goes
    back only after a full day on the monotonic clock `now`, so a clock that jumps ahead blocks clients for at
    most a day.

    All keys of a principal share the counters, but each key has its own limits. Lock the row before you call
    a method that changes the words.
    """

    __slots__ = ("_day_began", "_day_seen", "_divisor", "_lease_counted", "left", "name", "own", "row")

    def __init__(self, name: str, row: Row, count: int) -> None:
        self.name = name
        self.use_row(row)
        self._divisor = 2 if count == 1 else 32 * count
        self._lease_counted = (0, 0)
        self._day_seen = self._day_began = 0
        self.left = 0
        """Leased tokens that are counted in the row but not used yet. Negative: used but not counted yet."""

    def use_row(self, row: Row) -> None:
        """Use another row, because the old one was reassigned while the account was idle."""
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
        """Admit a call of `size` bytes and reserve `tokens`. Raises LimitExceeded without counting anything.

        Returns the slot and the day in which the tokens were counted, for `give_back`.
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
            counted = self._reserve(limits, tokens, now, wall)
        if full_requests:
            words[REQUESTS] = full_requests
        if full_bytes:
            words[BYTES] = full_bytes
        self.own[IN_FLIGHT] += 1
        if stream:
            self.own[STREAMS] += 1
        return counted

    def lease(self, limits: KeyLimits, tokens: int, now: int, wall: float) -> None:
        """Lease the tokens that a request needs now, and some in advance.

        Raises LimitExceeded if fewer than `tokens` remain.
        """
        need = tokens - self.left
        self.roll(now, wall)
        there = self._count_remaining(limits)
        if need > there:
            raise self._find_exceeded_limit(limits, need, now, wall)
        taken = max(need, there // self._divisor)
        self._lease_counted = self._count(taken)
        self.left += taken - tokens

    def overdraw(self, tokens: int, now: int, wall: float) -> None:
        """Count tokens that were already used. If this exceeds the limit, later calls are delayed."""
        self.roll(now, wall)
        used = max(min(tokens, self.left), 0)
        self.left -= used
        self._count(tokens - used)

    def take_bytes(self, limits: KeyLimits, size: int, now: int) -> None:
        """Count bytes. Raises LimitExceeded if the limit does not allow them."""
        self.row.words[BYTES] = self._bytes_until(limits, size, now)

    def overdraw_bytes(self, limits: KeyLimits, size: int, now: int) -> None:
        """Count bytes that were already sent. If this exceeds the limit, later calls are delayed."""
        if most := limits.bytes_per_second:
            self.row.words[BYTES] = max(self.row.words[BYTES], now) + -(-size * _SECOND // most)

    def give_back(self, tokens: int, slot: int, day: int) -> None:
        """Return reserved tokens that were not used.

        `slot` and `day` are from the call that reserved them.
        """
        words = self.row.words
        if words[SLOT] - slot < SLOTS:
            words[FIRST + slot % SLOTS] -= tokens
            words[MINUTE] -= tokens
        if words[DAY] == day:
            words[TODAY] -= tokens

    def return_lease(self) -> None:
        """Return the unused tokens of the lease, so that they do not carry over to another minute."""
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
        """Return the state of the request bucket. Returns None if requests are unlimited."""
        interval = principal.request_nanoseconds
        if not interval:
            return None
        wait = max(self.row.words[REQUESTS] - now, 0)
        return Window(principal.burst, max((principal.request_window - wait) // interval, 0), wait)

    def tokens(self, limits: KeyLimits, now: int, wall: float) -> Window | None:
        """Return the token limit with the lowest remainder, as of the last call.

        Returns None if tokens are unlimited.
        """
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

    def _reserve(self, limits: KeyLimits, tokens: int, now: int, wall: float) -> tuple[int, int]:
        """Reserve `tokens`. If 0, only check that at least one token remains."""
        self.roll(now, wall)
        if tokens and self.left:
            self.return_lease()
        need = tokens or 1
        if need > self._count_remaining(limits) + self.left:
            raise self._find_exceeded_limit(limits, need, now, wall)
        return self._count(tokens) if tokens else (0, 0)

    def _bytes_until(self, limits: KeyLimits, size: int, now: int) -> int:
        """Return the bucket's virtual time after `size` bytes. Raises LimitExceeded.

        A size above one second's worth of bytes needs a full bucket.
        """
        most = limits.bytes_per_second
        if not most:
            raise LimitExceeded("bytes_per_second", 0, None)
        until = max(self.row.words[BYTES], now)
        cost = -(-size * _SECOND // most)
        over = until - now + min(max(cost, 1), _SECOND) - _SECOND
        if over > 0:
            raise LimitExceeded("bytes_per_second", most, over)
        return until + cost

    def _count_remaining(self, limits: KeyLimits) -> int:
        words = self.row.words
        minute, day = limits.tokens_per_minute, limits.tokens_per_day
        if minute is None:
            assert day is not None
            return day - words[TODAY]
        left = minute - words[MINUTE]
        return left if day is None else min(left, day - words[TODAY])

    def _count(self, tokens: int) -> tuple[int, int]:
        """Count tokens in the current slot. Returns the slot and the day, for `give_back`."""
        words = self.row.words
        words[MINUTE] += tokens
        words[TODAY] += tokens
        words[FIRST + words[SLOT] % SLOTS] += tokens  # Must be last: `roll` corrects a sum that is too high.
        return words[SLOT], words[DAY]

    def roll(self, now: int, wall: float) -> None:
        """Clear the slots that have left the window. If the clock jumps back, nothing is cleared."""
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
        if words[DAY] != self._day_seen:  # The first call, or another process started the day.
            self._day_seen, self._day_began = words[DAY], now
        is_over = today < words[DAY] and now - self._day_began >= DAY_SECONDS * _SECOND
        if today > words[DAY] or is_over:
            words[TODAY] = 0
            words[DAY] = self._day_seen = today
            self._day_began = now

    def _until_tomorrow(self, wall: float) -> int:
        """Return the nanoseconds until the daily tokens are available again, at most one day."""
        return int(min((self.row.words[DAY] + 1) * DAY_SECONDS - wall, DAY_SECONDS) * _SECOND)

    def _until_empty(self, now: int) -> int:
        """Return the nanoseconds until the newest slot with tokens has left the window."""
        words = self.row.words
        slot = words[SLOT]
        for each in range(slot, slot - SLOTS, -1):
            if words[FIRST + each % SLOTS]:
                return max((each + SLOTS) * SLOT_NANOSECONDS - now, 0)
        return 0

    def _find_exceeded_limit(self, limits: KeyLimits, need: int, now: int, wall: float) -> LimitExceeded:
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
    """The account of all calls without limits.

    It has no row, because the number of such calls in progress is not limited.
    """

    __slots__ = ()

    def __init__(self) -> None:
        self.own = memoryview(bytearray(CELLS * 8)).cast("q")


def _too_many_requests(principal: Principal, limits: KeyLimits, over: int) -> LimitExceeded:
    if limits.burst == 0:
        return LimitExceeded("burst", 0, None)
    return LimitExceeded(
        "requests_per_second", limits.requests_per_second or 0, over if principal.request_window else None
    )
