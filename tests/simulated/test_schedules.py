"""Seeded schedules of calls, cancels, deadlines, unloads and crashes: what holds in each, and the bugs they found."""

import gc
import os

import pytest

from .schedule import run, virtual_time

CHUNK = 500
SEEDS = range(0, int(os.environ.get("SCHEDULES", "10000")), CHUNK)

FOUND: dict[int, str] = {
    12: "the error of a computation of the cache kept its readers' requests",
    36: "the error of a batch kept its members, and so did that of its halves",
    17: "the error of a stream with steps kept its request",
    30: "the error of a step kept its streams",
    19: "the error of a stream from a worker kept its request",
    56: "the error of an admission kept its request, where admit is a coroutine",
    8115: "a call that failed while it was cancelled by its id kept its task cancelled, and its request",
    27: "the error of a call in a worker kept its request",
    88163: "a stream whose end was cancelled gave its slot away while the model's cleanup ran",
    34752: "a queue of one was full while an ended call cleaned up: the promise was wrong",
    277923: "a stream that was ended despite its model kept its task, and so its request",
}
"""Seeds that once broke a promise."""


@pytest.mark.parametrize("first", SEEDS)
def test_every_schedule_keeps_every_guarantee(first: int) -> None:
    with virtual_time():
        for seed in range(first, first + CHUNK):
            try:
                run(seed)
            except BaseException as error:
                error.add_note(f"seed {seed}: python -m tests.simulated {seed}")
                raise
    gc.collect()


@pytest.mark.parametrize("seed", FOUND, ids=FOUND.get)
def test_schedule_regressions_stay_fixed(seed: int) -> None:
    with virtual_time():
        run(seed)
