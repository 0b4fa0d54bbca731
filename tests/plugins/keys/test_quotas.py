"""Limits of principals, at a clock that the test sets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.plugins.keys.counters import Counters, create_counters
from inferstream.plugins.keys.errors import LimitExceeded
from inferstream.plugins.keys.quotas import Quotas
from tests.plugins.keys.documents import Clock, principal


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["local", "shared"])
def quotas(request, clock):
    counters = Counters() if request.param == "local" else Counters(create_counters(3), 1, 3)
    return Quotas(counters, clock, clock.wall)


def refused(call):
    with pytest.raises(LimitExceeded) as caught:
        call()
    return caught.value.limit, caught.value.retry_after


def used(quotas, who):
    """What its key has used since the last time; None for nothing."""
    quotas.tick()
    sums = [its for key, name, its in quotas.take_usage() if (key, name) == (who.key, who.name)]
    return tuple(map(sum, zip(*sums, strict=True))) if sums else None


def admitted(quotas, who, most=1000, **options):
    for count in range(most):
        try:
            quotas.begin(who, **options).end()
        except LimitExceeded:
            return count
    return most


def test_everything_is_admitted_without_limits(quotas):
    who = principal()
    assert admitted(quotas, who, stream=True, tokens=10**9, size=10**9) == 1000
    use = quotas.begin(who)
    use.charge(10**12)
    quotas.receive(who, 10**12)
    assert quotas.headers(who) == {}


def test_left_is_current_without_a_call(quotas, clock):
    who = principal(requests_per_second=10, burst=3, tokens_per_minute=100)
    assert quotas.left(who) == {"requests": 3, "tokens": 100}
    use = quotas.begin(who)
    use.charge(40)
    use.end()
    assert quotas.left(who) == {"requests": 2, "tokens": 60}
    clock.sleep(100)
    assert quotas.left(who) == {"requests": 3, "tokens": 100}
    assert quotas.left(principal()) == {}


def test_unlimited_calls_map_no_other_table(monkeypatch, clock):
    counters = Counters()
    monkeypatch.setattr("inferstream.plugins.keys.counters.mmap.mmap", None)
    Quotas(counters, clock, clock.wall).begin(principal(), stream=True).end()


def test_requests_per_second_refill(quotas, clock):
    who = principal(requests_per_second=10, burst=3)
    assert admitted(quotas, who) == 3
    assert refused(lambda: quotas.begin(who)) == ("requests_per_second", 1)
    clock.sleep(0.1)
    assert admitted(quotas, who) == 1
    clock.sleep(100)
    assert admitted(quotas, who) == 3


def test_slow_rate_sets_retry_after(quotas, clock):
    who = principal(requests_per_second=0.1)
    assert admitted(quotas, who) == 1
    assert refused(lambda: quotas.begin(who)) == ("requests_per_second", 10)
    clock.sleep(10)
    assert admitted(quotas, who) == 1


@pytest.mark.parametrize(
    "name", ["requests_per_second", "in_flight", "tokens_per_minute", "tokens_per_day", "bytes_per_second"]
)
def test_zero_limit_refuses_all(quotas, clock, name):
    clock.sleep(10**6)
    assert refused(lambda: quotas.begin(principal(**{name: 0}))) == (name, None)


def test_zero_stream_limit_admits_other_calls(quotas):
    who = principal(streams=0)
    assert refused(lambda: quotas.begin(who, stream=True)) == ("streams", None)
    assert admitted(quotas, who) == 1000


def test_zero_burst_refuses_all(quotas):
    assert refused(lambda: quotas.begin(principal(requests_per_second=5, burst=0))) == ("burst", None)


def test_calls_in_flight_are_released(quotas):
    who = principal(in_flight=2)
    first, _second = quotas.begin(who), quotas.begin(who)
    assert refused(lambda: quotas.begin(who)) == ("in_flight", 1)
    first.end()
    first.end()
    third = quotas.begin(who)
    assert refused(lambda: quotas.begin(who)) == ("in_flight", 1)
    third.end()


def test_streams_are_counted_separately(quotas):
    who = principal(streams=1, in_flight=9)
    stream = quotas.begin(who, stream=True)
    quotas.begin(who).end()
    assert refused(lambda: quotas.begin(who, stream=True)) == ("streams", 1)
    stream.end()
    quotas.begin(who, stream=True).end()


def test_refusal_counts_nothing(quotas):
    who = principal(in_flight=1, requests_per_second=1, burst=2, tokens_per_minute=10)
    use = quotas.begin(who)
    for _ in range(5):
        assert refused(lambda: quotas.begin(who, tokens=10)) == ("in_flight", 1)
    use.end()
    quotas.begin(who, tokens=10).end()


def charged(use, most=10**6, by=1):
    for count in range(0, most, by):
        try:
            use.charge(by)
        except LimitExceeded:
            return count
    return most


def test_tokens_per_minute_run_out_exactly(quotas):
    use = quotas.begin(principal(tokens_per_minute=1000), stream=True)
    assert charged(use) == 1000
    assert use.tokens == 1000
    assert refused(lambda: use.charge(1)) == ("tokens_per_minute", 61)


def test_no_minute_exceeds_token_limit(quotas, clock):
    who = principal(tokens_per_minute=600)
    use = quotas.begin(who, stream=True)
    times = []
    for _ in range(600):
        clock.sleep(0.3)
        if _ % 2:
            quotas.tick()
        times += [clock.seconds] * charged(use, most=7)
    for start in times:
        assert sum(start <= time < start + 60 for time in times) <= 600
    assert len(times) >= 0.98 * 600 * 2  # in three minutes, of which the last is in progress


def test_new_call_needs_a_token(quotas, clock):
    who = principal(tokens_per_minute=5)
    use = quotas.begin(who)
    assert charged(use) == 5
    use.end()
    assert refused(lambda: quotas.begin(who)) == ("tokens_per_minute", 61)
    clock.sleep(62)
    quotas.begin(who).end()


def test_unused_reserved_tokens_are_returned(quotas):
    who = principal(tokens_per_minute=100)
    use = quotas.begin(who, tokens=80)
    assert refused(lambda: quotas.begin(who, tokens=21)) == ("tokens_per_minute", 61)
    use.charge(30)
    use.end()
    second = quotas.begin(who, tokens=70)
    assert refused(lambda: quotas.begin(who)) == ("tokens_per_minute", 61)
    assert charged(second) == 70


def test_stream_can_exceed_reservation(quotas):
    use = quotas.begin(principal(tokens_per_minute=100), tokens=10)
    assert charged(use, by=3) == 99
    use.charge(1)


def test_bucket_never_exceeds_limit(quotas):
    assert refused(lambda: quotas.begin(principal(tokens_per_minute=5), tokens=6)) == (
        "tokens_per_minute",
        None,
    )
    assert refused(lambda: quotas.begin(principal(tokens_per_day=5), tokens=6)) == ("tokens_per_day", None)


def test_final_token_count_delays_later_calls(quotas, clock):
    who = principal(tokens_per_minute=10)
    quotas.begin(who, tokens=2).end(tokens=15)
    assert refused(lambda: quotas.begin(who)) == ("tokens_per_minute", 61)
    clock.sleep(62)
    assert charged(quotas.begin(who)) == 10


def test_unused_lease_is_returned(quotas):
    who = principal(tokens_per_minute=1000)
    use = quotas.begin(who)
    use.charge(1)
    quotas.tick()
    quotas.begin(who, tokens=999)


def test_days_are_utc(quotas, clock):
    clock.date = 1_800_000_000 // 86400 * 86400 + 86400 - 90
    who = principal(tokens_per_day=10)
    use = quotas.begin(who)
    assert charged(use) == 10
    assert refused(lambda: use.charge(1)) == ("tokens_per_day", 90)
    clock.sleep(90)
    assert charged(use) == 10


@pytest.mark.parametrize(
    "name", ["requests_per_second", "tokens_per_minute", "tokens_per_day", "bytes_per_second"]
)
def test_backward_clock_jump_refills_nothing(quotas, clock, name):
    who = principal(**{name: 5})

    stream = quotas.begin(who)

    def use_all():
        return charged(stream) if name.startswith("tokens") else admitted(quotas, who, size=1)

    assert use_all() == (4 if name == "requests_per_second" else 5)
    before = clock.seconds, clock.date
    for jump in (-1, -100, -999, -86400 * 3):
        clock.seconds, clock.date = max(before[0] + jump, 0), before[1] + jump
        assert use_all() == 0
    clock.seconds, clock.date = before
    assert use_all() == 0


def test_bytes_of_later_messages_are_added(quotas, clock):
    who = principal(bytes_per_second=1000)
    quotas.begin(who, size=400).end()
    quotas.receive(who, 500)
    assert refused(lambda: quotas.receive(who, 200)) == ("bytes_per_second", 1)
    assert refused(lambda: quotas.begin(who, size=200)) == ("bytes_per_second", 1)
    assert used(quotas, who) == (1, 1, 0, 900)
    clock.sleep(1)
    quotas.begin(who, size=900).end()


def test_body_over_one_second_needs_full_bucket(quotas, clock):
    who = principal(bytes_per_second=1000)
    quotas.begin(who, size=5000).end()
    assert refused(lambda: quotas.begin(who)) == ("bytes_per_second", 5)
    assert refused(lambda: quotas.begin(who, size=5000))[0] == "bytes_per_second"
    clock.sleep(5.1)
    quotas.begin(who, size=5000).end()


def test_response_bytes_delay_later_calls(quotas, clock):
    who = principal(bytes_per_second=1000)
    use = quotas.begin(who, size=100)
    quotas.create_use(who).sent += 5000
    use.end()
    assert refused(lambda: quotas.receive(who, 1)) == ("bytes_per_second", 5)
    assert refused(lambda: quotas.begin(who)) == ("bytes_per_second", 5)
    assert used(quotas, who) == (1, 1, 0, 5100)
    clock.sleep(5.2)
    quotas.begin(who).end()


def test_other_processes_see_response_bytes_after_tick(clock):
    counters = create_counters(2)
    one, other = (Quotas(Counters(counters, each, 2), clock, clock.wall) for each in range(2))
    here, there = (principal(bytes_per_second=1000) for _ in range(2))
    one.create_use(here).sent += 5000
    other.begin(there).end()
    one.tick()
    assert refused(lambda: other.begin(there)) == ("bytes_per_second", 5)


def test_response_bytes_without_limit_are_only_counted(quotas):
    who = principal(requests_per_second=1000, burst=1000)
    quotas.create_use(who).sent += 10**12
    assert admitted(quotas, who) == 1000
    assert used(quotas, who) == (1000, 0, 0, 10**12)


def test_keys_of_one_principal_share_limits(quotas):
    first, second = principal(in_flight=2), principal(in_flight=3)
    second.key = "other"
    quotas.begin(first)
    quotas.begin(first)
    quotas.begin(second)
    assert refused(lambda: quotas.begin(first))[0] == "in_flight"
    assert refused(lambda: quotas.begin(second))[0] == "in_flight"


def test_principals_have_separate_limits(quotas):
    quotas.begin(principal("alice", in_flight=1))
    quotas.begin(principal("bob", in_flight=1))


def test_headers_show_remaining_quota(quotas, clock):
    who = principal(requests_per_second=0.5, burst=4, tokens_per_minute=100)
    quotas.begin(who, tokens=30)
    headers = quotas.headers(who)
    assert headers["x-ratelimit-limit-requests"] == "4"
    assert headers["x-ratelimit-remaining-requests"] == "3"
    assert headers["x-ratelimit-reset-requests"] == "2s"
    assert headers["x-ratelimit-limit-tokens"] == "100"
    assert headers["x-ratelimit-remaining-tokens"] == "70"
    assert headers["x-ratelimit-reset-tokens"] == "1m1s"
    clock.sleep(1)
    assert quotas.headers(who)["x-ratelimit-reset-requests"] == "1s"


def test_headers_show_tightest_limit(quotas):
    who = principal(tokens_per_minute=100, tokens_per_day=50)
    quotas.begin(who, tokens=10)
    assert quotas.headers(who)["x-ratelimit-limit-tokens"] == "50"
    assert quotas.headers(who)["x-ratelimit-remaining-tokens"] == "40"


def test_usage_is_counted_per_key(quotas):
    who = principal(in_flight=1)
    assert used(quotas, who) is None
    use = quotas.begin(who, size=10)
    use.charge(7)
    with pytest.raises(LimitExceeded):
        quotas.begin(who)
    quotas.receive(who, 5)
    use.end(tokens=9)
    assert used(quotas, who) == (1, 1, 9, 15)


def test_earlier_tokens_count(quotas):
    quotas.restore("alice", 8)
    assert charged(quotas.begin(principal(tokens_per_day=10))) == 2


@given(
    st.lists(st.tuples(st.floats(-5, 40), st.integers(0, 9), st.integers(0, 9)), max_size=40),
    st.integers(1, 30),
)
def test_random_traffic_never_exceeds_minute_limit(steps, limit):
    clock = Clock(10_000)
    quotas = Quotas(Counters(), clock, clock.wall)
    who = principal(tokens_per_minute=limit)
    latest, used = 0.0, []  # the quotas do not know the time of the clock before the first step
    for seconds, reserved, tokens in steps:
        clock.sleep(seconds)
        quotas.tick()
        latest = max(latest, clock.seconds)
        try:
            use = quotas.begin(who, tokens=reserved)
        except LimitExceeded:
            continue
        used += [latest] * charged(use, most=tokens)
        use.end()
    for start in used:
        assert sum(start <= time < start + 60 for time in used) <= limit


def test_key_is_counted_across_reloads(quotas):
    for _ in range(3):
        quotas.begin(principal(), size=5).end()
    other = principal(requests_per_second=1)
    quotas.begin(other, size=5).end()
    assert used(quotas, other) == (4, 0, 0, 20)
    assert used(quotas, other) is None


def test_unread_usage_is_not_kept(clock):
    quotas = Quotas(Counters(), clock, clock.wall, saved=False)
    quotas.begin(principal(), size=5).end()
    quotas.tick()
    assert quotas.take_usage() == []
    assert not quotas._ended


def test_usage_without_space_is_handed_over_later(monkeypatch, quotas):
    who = principal()
    quotas.begin(who, size=5).end()
    with monkeypatch.context() as full:
        full.setattr(quotas._counters, "post", lambda records: 0)
        quotas.tick()
    key, name = who.key, who.name
    del who
    quotas.tick()
    assert [taken[:2] for taken in quotas.take_usage()] == [(key, name)]


def test_idle_accounts_are_looked_up_again(monkeypatch, quotas, clock):
    monkeypatch.setattr("inferstream.plugins.keys.quotas.MAX_ACCOUNTS", 2)
    alice = principal(requests_per_second=1, burst=3)
    use = quotas.begin(principal("bob", in_flight=1))
    for who in (alice, principal("carol", in_flight=1)):
        quotas.begin(who).end()
    quotas.tick()
    assert [*quotas._accounts] == ["bob"]
    assert admitted(quotas, alice) == 2
    use.end()


def test_only_token_limit_ends_stream(quotas):
    assert quotas.begin(principal(), stream=True).unlimited
    assert quotas.begin(principal(streams=5), stream=True).unlimited
    assert not quotas.begin(principal(tokens_per_day=5), stream=True).unlimited
