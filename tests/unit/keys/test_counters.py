"""Counters of one process and of several, which are real here."""

import json
import mmap
import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from inferstream.keys import counters
from inferstream.keys.counters import IN_FLIGHT, TOKENS, LocalCounters, SharedCounters, create_counters
from inferstream.keys.document import MOST_NAME
from inferstream.keys.errors import LimitExceeded
from inferstream.keys.quotas import Quotas

from .documents import principal

PROCESSES = 4


class Hammers:
    """Processes that use one limit at once."""

    def __init__(self, stack, what, **limits):
        self.descriptor = create_counters(PROCESSES)
        self.quotas = Quotas(SharedCounters(self.descriptor, PROCESSES - 1, PROCESSES))
        progress = os.memfd_create("progress")
        os.ftruncate(progress, 8 * PROCESSES)
        self.used = memoryview(mmap.mmap(progress, 8 * PROCESSES)).cast("q")
        self.processes = [
            stack.enter_context(
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "tests.unit.keys.hammer",
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


def test_requests_of_several_processes_are_exactly_the_limit(hammers):
    all = hammers("requests", requests_per_second=0.001, burst=5000)
    all.go()
    all.wait()
    assert sum(all.used) == 5000


def test_tokens_of_several_processes_are_at_most_the_limit(hammers):
    all = hammers("tokens", tokens_per_day=100_000, tokens_per_minute=90_000)
    all.go()
    all.wait()
    assert 0.98 * 90_000 <= sum(all.used) <= 90_000
    assert sum(used > 0 for used in all.used) > 1


def test_a_process_that_is_killed_takes_little_and_stops_nobody(hammers):
    all = hammers("tokens", tokens_per_day=200_000)
    all.go()
    killed = all.processes[0]
    while all.used[0] < 1000:
        os.sched_yield()
    killed.kill()
    killed.wait()
    all.wait(but=killed)
    assert 0.98 * 200_000 <= sum(all.used) <= 200_000


def test_calls_in_flight_end_with_their_process(hammers):
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
    SharedCounters(all.descriptor, PROCESSES - 1, PROCESSES).forget(killed)
    for _ in range(all.used[killed]):
        all.quotas.begin(alice)
    with pytest.raises(LimitExceeded):
        all.quotas.begin(alice)


def test_a_process_that_keeps_a_row_is_not_waited_for(hammers, monkeypatch):
    monkeypatch.setattr(counters, "_PATIENCE", 1)
    descriptor = create_counters(2)
    row = SharedCounters(descriptor, 0, 2).row("alice")
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


def test_processes_find_the_same_rows():
    descriptor = create_counters(2)
    first, second = (SharedCounters(descriptor, index, 2) for index in range(2))
    for name in ("alice", "bob"):
        assert second.find(name) is None
        first.row(name).own[TOKENS] = 3
        second.row(name).own[TOKENS] = 4
        assert second.find(name).total(TOKENS) == first.row(name).total(TOKENS) == 7
    assert first.row("alice").words is not None
    first.row("alice").words[0] = 5
    assert second.row("alice").words[0] == 5
    assert second.row("bob").words[0] == 0


@pytest.mark.parametrize("shared", [False, True])
def test_each_name_is_told_once(shared):
    if shared:
        descriptor = create_counters(2)
        first, second = (SharedCounters(descriptor, index, 2) for index in range(2))
    else:
        first = second = LocalCounters()
    assert [*first.names()] == []
    longest = "key jwt:" + "\N{GRINNING FACE}" * MOST_NAME
    names = ["alice", "key bérénice", "12345678", "", longest]
    for i, name in enumerate(names):
        second.row(name)
        first.row(name)
        assert [*first.names()] == names[: i + 1]
    assert [*second.names()] == names


def test_a_name_that_is_not_whole_yet_is_told_later():
    descriptor = create_counters(2)
    first, second = (SharedCounters(descriptor, index, 2) for index in range(2))
    second.row("alice")
    text = second._names[2]
    second._names[2] = 0
    assert first.names() == []
    second._names[2] = text
    assert first.names() == ["alice"]


def test_a_name_of_a_process_that_was_killed_is_written_over():
    descriptor = create_counters(2)
    first, second = (SharedCounters(descriptor, index, 2) for index in range(2))
    second._names[0] = 1
    first.row("alice")
    assert second.names() == ["alice"]


def test_a_name_that_is_too_long_has_a_row(monkeypatch):
    monkeypatch.setattr(counters, "_MOST_NAME", 5)
    some = SharedCounters(create_counters(1), 0, 1)
    some.row("a" * 6).own[TOKENS] = 1
    some.row("bob")
    assert some.find("a" * 6).total(TOKENS) == 1
    assert some.names() == ["bob"]


def test_forgetting_a_process_leaves_its_sums():
    descriptor = create_counters(2)
    first, second = (SharedCounters(descriptor, index, 2) for index in range(2))
    for each in (first, second):
        each.row("alice").own[IN_FLIGHT] = 2
        each.row("alice").own[TOKENS] = 5
    first.forget(1)
    assert first.row("alice").total(IN_FLIGHT) == 2
    assert first.row("alice").total(TOKENS) == 10


@pytest.mark.parametrize("shared", [False, True])
def test_there_are_only_so_many_rows(monkeypatch, shared):
    monkeypatch.setattr(counters, "ROWS", 3)
    some = SharedCounters(create_counters(1), 0, 1) if shared else LocalCounters()
    for i in range(3):
        some.row(str(i))
        some.row(str(i))
    with pytest.raises(LimitExceeded):
        some.row("3")
    assert some.find("3") is None
    assert some.find("2") is not None


def test_keys_without_a_row_are_served(monkeypatch):
    monkeypatch.setattr(counters, "ROWS", 1)
    quotas = Quotas(LocalCounters())
    for name in ("alice", "bob"):
        quotas.begin(principal(name)).end()
    assert quotas.used("alice-key").requests == 1
    assert quotas.used("bob-key") is None
