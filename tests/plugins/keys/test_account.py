"""The use of one principal, and the windows of its limits."""

import pytest

from inferstream.plugins.keys.account import Account
from inferstream.plugins.keys.counters import Counters
from inferstream.plugins.keys.errors import LimitExceeded
from inferstream.plugins.keys.principal import KeyLimits
from inferstream.plugins.keys.words import DAY_SECONDS as DAY
from inferstream.plugins.keys.words import SLOT_NANOSECONDS as SLOT
from inferstream.plugins.keys.words import SLOTS
from tests.plugins.keys.documents import principal

WALL = 20_000 * DAY + 1.0  # a second after midnight


@pytest.fixture
def account():
    return Account("alice", Counters().row("alice", 0, 0.0), 1)


def admit(account, who, tokens=0, now=SLOT, wall=WALL):
    return account.admit(who, who.limits, False, tokens, 0, now, wall)


def test_tokens_expire_gradually_with_window(account):
    who = principal(tokens_per_minute=10)
    admit(account, who, 7)
    assert account.tokens(who.limits, SLOT, WALL).left == 3
    last = SLOT + (SLOTS - 1) * SLOT
    with pytest.raises(LimitExceeded):
        admit(account, who, 7, last)
    admit(account, who, 7, last + SLOT)


def test_returned_tokens_count_in_no_window(account):
    who = principal(tokens_per_minute=10, tokens_per_day=10)
    counted = admit(account, who, 10)
    account.give_back(4, *counted)
    window = account.tokens(who.limits, SLOT, WALL)
    assert (window.limit, window.left) == (10, 4)


def test_tokens_returned_after_midnight_do_not_extend_next_day(account):
    who = principal(tokens_per_day=10)
    counted = admit(account, who, 10)
    tomorrow = WALL + DAY
    admit(account, who, 8, 2 * SLOT, tomorrow)
    account.give_back(10, *counted)
    assert account.tokens(who.limits, 2 * SLOT, tomorrow).left == 2


def test_day_ends_at_midnight_utc(account):
    who = principal(tokens_per_day=5)
    admit(account, who, 5)
    with pytest.raises(LimitExceeded) as caught:
        admit(account, who, 1, SLOT, WALL + DAY - 2)
    assert caught.value.retry_after == 1
    admit(account, who, 1, SLOT, WALL + DAY - 1)


def test_lease_prefetches_and_returns_the_rest(account):
    limits = KeyLimits(tokens_per_minute=100)
    account.lease(limits, 10, SLOT, WALL)
    assert account.left == 40
    account.return_lease()
    assert account.tokens(limits, SLOT, WALL).left == 90


def test_used_tokens_count_beyond_limit(account):
    who = principal(tokens_per_minute=10)
    account.overdraw(15, SLOT, WALL)
    assert account.tokens(who.limits, SLOT, WALL).left == 0
    with pytest.raises(LimitExceeded, match="tokens_per_minute of 10"):
        admit(account, who, 1)


def test_refused_call_counts_nothing(account):
    who = principal(requests_per_second=10, burst=1, tokens_per_minute=5)
    with pytest.raises(LimitExceeded, match="tokens_per_minute"):
        admit(account, who, 6)
    admit(account, who, 5)


def test_earlier_usage_counts_for_today(account):
    who = principal(tokens_per_day=10)
    account.restore(9, SLOT, WALL)
    admit(account, who, 1)
    with pytest.raises(LimitExceeded, match="tokens_per_day"):
        admit(account, who, 1)


@pytest.mark.parametrize("days", [1, 2, 400])
def test_corrected_clock_blocks_for_at_most_a_day(account, days):
    who = principal(tokens_per_day=10)
    admit(account, who, 10)
    admit(account, who, 10, wall=WALL + days * DAY)
    for now in (SLOT, SLOT + DAY * 10**9 - 1):
        with pytest.raises(LimitExceeded, match="tokens_per_day") as refused:
            admit(account, who, 1, now)
        assert refused.value.retry_after <= DAY
        assert account.tokens(who.limits, now, WALL).reset <= DAY * 10**9
    admit(account, who, 10, SLOT + DAY * 10**9)
    with pytest.raises(LimitExceeded):
        admit(account, who, 1, SLOT + DAY * 10**9)
    admit(account, who, 10, SLOT + DAY * 10**9, WALL + DAY)


def test_day_started_by_other_process_ends():
    row = Counters().row("alice", 0, 0.0)
    one, two = Account("alice", row, 2), Account("alice", row, 2)
    who = principal(tokens_per_day=10)
    admit(one, who, 4)
    admit(two, who, 4, wall=WALL + 9 * DAY)
    with pytest.raises(LimitExceeded):
        admit(one, who, 7)
    admit(one, who, 10, SLOT + DAY * 10**9)
    with pytest.raises(LimitExceeded):
        admit(two, who, 1, SLOT + DAY * 10**9)
