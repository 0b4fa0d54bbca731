"""Counters of one process and of several, which are real here."""

import json
import mmap
import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from inferstream.plugins.keys import counters
from inferstream.plugins.keys import words as row_words
from inferstream.plugins.keys.counters import IN_FLIGHT, STREAMS, Counters, create_counters
from inferstream.plugins.keys.errors import LimitExceeded
from inferstream.plugins.keys.quotas import Quotas
from inferstream.plugins.keys.words import (
    DAY,
    DAY_SECONDS,
    MINUTE,
    REQUESTS,
    SLOT,
    SLOT_NANOSECONDS,
    SLOTS,
    TODAY,
)
from tests.plugins.keys.documents import Clock, principal

PROCESSES = 4

NOW = 10**12
WALL = 20_000 * DAY_SECONDS + 5.0
DATE = 20_000


class Hammers:
    """Processes that use one limit at once."""

    def __init__(self, stack, what, **limits):
        self.descriptor = create_counters(PROCESSES)
        self.quotas = Quotas(Counters(self.descriptor, PROCESSES - 1, PROCESSES))
        progress = os.memfd_create("progress")
        os.ftruncate(progress, 8 * PROCESSES)
        self.used = memoryview(mmap.mmap(progress, 8 * PROCESSES)).cast("q")
        self.processes = [
            stack.enter_context(
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "tests.plugins.keys.hammer",
                        str(self.descriptor),
                        str(progress),
                        str(index),
                        str(PROCESSES),
                        what,
                        json.dumps(limits),
                    ],
                    pass_fds=[self.descriptor, progress],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                )
            )
            for index in range(PROCESSES)
        ]
        for process in self.processes:
            assert process.stdout.readline() == b"ready\n"

    def go(self):
        for process in self.processes:
            process.stdin.write(b"go\n")
            process.stdin.flush()

    def wait(self, but=None):
        for process in self.processes:
            if process is not but:
                assert process.stdout.readline() == b"done\n"

    def end(self):
        for process in self.processes:
            process.kill()


@pytest.fixture
def hammers():
    with ExitStack() as stack:
        made = []

        def make(*arguments, **limits):
            made.append(Hammers(stack, *arguments, **limits))
            return made[-1]

        yield make
        for each in made:
            each.end()


def test_request_limit_is_exact_across_processes(hammers):
    all = hammers("requests", requests_per_second=0.001, burst=5000)
    all.go()
    all.wait()
    assert sum(all.used) == 5000


def test_token_limit_is_not_exceeded_across_processes(hammers):
    all = hammers("tokens", tokens_per_day=100_000, tokens_per_minute=90_000)
    all.go()
    all.wait()
    assert 0.98 * 90_000 <= sum(all.used) <= 90_000
    assert sum(used > 0 for used in all.used) > 1


def test_killed_process_leaks_little_and_blocks_nothing(hammers):
    all = hammers("tokens", tokens_per_day=200_000)
    all.go()
    killed = all.processes[0]
    while all.used[0] < 1000:
        os.sched_yield()
    killed.kill()
    killed.wait()
    all.wait(but=killed)
    assert 0.98 * 200_000 <= sum(all.used) <= 200_000


def test_calls_in_flight_end_with_process(hammers):
    all = hammers("calls", in_flight=50)
    all.go()
    all.wait()
    assert sum(all.used) == 50
    alice = principal(in_flight=50)
    with pytest.raises(LimitExceeded):
        all.quotas.begin(alice)
    killed = max(range(PROCESSES - 1), key=all.used.__getitem__)
    all.processes[killed].kill()
    all.processes[killed].wait()
    Counters(all.descriptor, PROCESSES - 1, PROCESSES).forget(killed)
    for _ in range(all.used[killed]):
        all.quotas.begin(alice)
    with pytest.raises(LimitExceeded):
        all.quotas.begin(alice)


def test_row_held_by_dead_process_is_not_awaited(hammers, monkeypatch):
    monkeypatch.setattr(counters, "_PATIENCE", 1)
    descriptor = create_counters(2)
    row = Counters(descriptor, 0, 2).row("alice", NOW, WALL)
    keep = (
        "import fcntl, sys; fcntl.lockf(int(sys.argv[1]), fcntl.LOCK_EX, 1, int(sys.argv[2])); "
        "print('kept', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", keep, str(descriptor), str(row._number)]
    with subprocess.Popen(
        command, pass_fds=[descriptor], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        with pytest.raises(LimitExceeded) as caught:
            row.lock()
        assert caught.value.retry_after == 1
        process.kill()
    row.lock()
    row.unlock()


def row(counters, name, now=NOW, wall=WALL):
    return counters.row(name, now, wall)


def pair():
    descriptor = create_counters(2)
    return tuple(Counters(descriptor, index, 2) for index in range(2))


def made(kind):
    return Counters(create_counters(2), 0, 2) if kind == "shared" else Counters()


@pytest.fixture(params=["local", "shared"])
def kind(request):
    return request.param


@pytest.fixture
def few(monkeypatch, kind):
    """Counters with three rows, and room for 16 names without one."""
    monkeypatch.setattr(counters, "ROWS", 3)
    monkeypatch.setattr(row_words, "ENTRIES", 16)
    return made(kind)


def test_processes_share_rows():
    first, second = pair()
    for name in ("alice", "bob"):
        row(first, name).own[IN_FLIGHT] = 3
        row(second, name).own[IN_FLIGHT] = 4
        assert row(second, name).total(IN_FLIGHT) == row(first, name).total(IN_FLIGHT) == 7
    row(first, "alice").words[0] = 5
    assert row(second, "alice").words[0] == 5
    assert row(second, "bob").words[0] == 0


def test_row_assignment_is_unpredictable():
    numbers = {row(made("shared"), "alice")._number for _ in range(20)}
    assert len(numbers) > 1


LOOKALIKES = [
    "alice",
    "Alice",
    "alice ",
    " alice",
    "alice.",
    "alice\0",
    "alic\u00e9",
    "alice\u0301",
    "%61lice",
    "jwt:alice",
]
LOOKALIKES += ["\uff41lice", "alice\ud800", "alice?", "a" * 260, "a" * 259 + "b"]


@pytest.mark.parametrize("shared", [False, True])
def test_similar_names_have_own_rows(shared):
    some = made("shared" if shared else "local")
    for value, name in enumerate(LOOKALIKES, 1):
        row(some, name).words[0] = value
    assert [row(some, name).words[0] for name in LOOKALIKES] == [*range(1, len(LOOKALIKES) + 1)]


def test_records_go_to_the_process_that_takes_them(kind):
    first, second = pair() if kind == "shared" else [made(kind)] * 2
    records = [b"1", b"12345678", b"x" * 1000]
    assert first.post(records)
    assert first.post([])
    assert second.post([b"more"])
    assert second.take() == [*records, b"more"]
    assert first.take() == []


def test_records_without_space_are_kept_back(monkeypatch):
    monkeypatch.setattr(counters, "MAIL", 8)
    first, second = pair()
    assert first.post([b"x" * 30, b"y" * 30])
    assert not second.post([b"z"] * 2)
    assert second.post([b"z"])
    assert second.take() == [b"x" * 30, b"y" * 30, b"z"]
    assert first.post([b"w"] * 2)


def test_record_of_killed_process_is_overwritten():
    first, second = pair()
    second._mail[:5] = b"part\n"
    first.post([b"whole"])
    assert second.take() == [b"whole"]


def test_last_saving_process_gets_records():
    descriptor = create_counters(2)
    first, second = (Counters(descriptor, index, 2) for index in range(2))
    second.post([b"late"])
    os.close(descriptor)
    del second
    assert first.take() == [b"late"]


def test_removed_process_releases_its_calls():
    first, second = pair()
    for each in (first, second):
        row(each, "alice").own[IN_FLIGHT] = 2
        row(each, "alice").own[STREAMS] = 1
    first.forget(1)
    assert row(first, "alice").total(IN_FLIGHT) == 2
    assert row(first, "alice").total(STREAMS) == 1


def test_idle_row_is_reused(few):
    for number in range(100):
        row(few, str(number))
    assert row(few, "99").is_current()


BUSY = {
    "a call in progress": lambda its: its.own.__setitem__(IN_FLIGHT, 1),
    "a stream": lambda its: its.own.__setitem__(STREAMS, 1),
    "requests that are not refilled": lambda its: its.words.__setitem__(REQUESTS, NOW + 1),
    "bytes that are not refilled": lambda its: its.words.__setitem__(row_words.BYTES, NOW + 1),
    "tokens of the minute": lambda its: (
        its.words.__setitem__(MINUTE, 1),
        its.words.__setitem__(SLOT, NOW // SLOT_NANOSECONDS - SLOTS + 1),
    ),
}


@pytest.mark.parametrize("what", BUSY)
def test_row_in_use_is_kept(few, what):
    rows = [row(few, str(number)) for number in range(3)]
    for each in rows:
        BUSY[what](each)
    for _ in range(2):
        with pytest.raises(LimitExceeded) as caught:
            row(few, "3")
        assert caught.value.retry_after == 1
    assert [row(few, str(number)).words[0] for number in range(3)] == [each.words[0] for each in rows]


def test_row_is_reused_after_its_data_expires(few):
    for number in range(3):
        row(few, str(number)).words[REQUESTS] = NOW + 5
    later = NOW + 10 * counters.FULL_NANOSECONDS
    with pytest.raises(LimitExceeded):
        row(few, "3")
    row(few, "3", later)


def test_full_set_is_not_rescanned(monkeypatch):
    monkeypatch.setattr(counters, "ROWS", 3)
    some = made("shared")
    for number in range(3):
        row(some, str(number)).own[IN_FLIGHT] = 1
    with pytest.raises(LimitExceeded):
        row(some, "3")
    monkeypatch.setattr(some, "_reclaim_row", lambda *_: pytest.fail("looked"))
    with pytest.raises(LimitExceeded):
        row(some, "4")


def test_daily_tokens_survive_row_reuse(few):
    its = row(few, "alice")
    its.words[DAY], its.words[TODAY] = DATE, 90
    for number in range(12):
        other = row(few, str(number))
        other.words[DAY], other.words[TODAY] = DATE, number + 1
    assert row(few, "alice").words[TODAY] == 90
    assert [row(few, str(number)).words[TODAY] for number in range(12)] == [*range(1, 13)]
    assert row(few, "alice").words[TODAY] == 90
    for number in range(20):
        row(few, f"other {number}")
    assert row(few, "alice", NOW, WALL + DAY_SECONDS).words[TODAY] == 0, "the day is over"


def test_row_is_kept_if_daily_usage_has_no_space(few):
    names = 0
    with pytest.raises(LimitExceeded):
        for names in range(100):
            its = row(few, str(names))
            its.words[DAY], its.words[TODAY] = DATE, 1
    assert names == 3 + 16
    row(few, "tomorrow", NOW + 10**10, WALL + DAY_SECONDS)


def test_daily_limit_holds_despite_many_other_names(monkeypatch, kind):
    monkeypatch.setattr(counters, "ROWS", 4)
    clock = Clock()
    quotas = Quotas(made(kind), clock, clock.wall)
    alice = principal(tokens_per_day=10)
    quotas.begin(alice, tokens=10).end(10)
    for number in range(200):
        clock.sleep(70)
        quotas.begin(principal(f"{number}", tokens_per_day=10), tokens=3).end(3)
    with pytest.raises(LimitExceeded):
        quotas.begin(alice, tokens=1)
    clock.sleep(DAY_SECONDS)
    quotas.begin(alice, tokens=1)


def test_call_in_progress_keeps_row(monkeypatch, kind):
    monkeypatch.setattr(counters, "ROWS", 4)
    clock = Clock()
    quotas = Quotas(made(kind), clock, clock.wall)
    alice = principal(in_flight=1)
    use = quotas.begin(alice)
    for number in range(50):
        quotas.begin(principal(f"{number}", in_flight=1)).end()
    with pytest.raises(LimitExceeded):
        quotas.begin(alice)
    use.end()
    quotas.begin(alice).end()


def test_row_taken_by_other_process_is_looked_up_again(monkeypatch):
    monkeypatch.setattr(counters, "ROWS", 3)
    clock = Clock()
    first, second = (Quotas(each, clock, clock.wall) for each in pair())
    alice = principal(requests_per_second=1, burst=2)
    first.begin(alice).end()
    clock.sleep(10)
    for number in range(3):
        second.begin(principal(f"{number}", requests_per_second=0.001)).end()
    with pytest.raises(LimitExceeded) as caught:
        first.begin(alice)
    assert (caught.value.limit, caught.value.retry_after) == ("of principals at once", 1)
    assert first.headers(alice) == {}
    clock.sleep(2000)
    first.begin(alice).end()
    assert first.headers(alice)["x-ratelimit-remaining-requests"] == "1"


def test_full_table_refuses_and_headers_do_not_raise(monkeypatch, kind):
    monkeypatch.setattr(counters, "ROWS", 1)
    quotas = Quotas(made(kind))
    quotas.begin(principal("alice", in_flight=5))
    bob = principal("bob", in_flight=5)
    with pytest.raises(LimitExceeded):
        quotas.begin(bob)
    assert quotas.headers(bob) == {}
    quotas.begin(principal("carol")).end()
