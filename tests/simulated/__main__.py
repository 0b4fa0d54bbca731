"""Runs the schedules of many seeds: `python -m tests.simulated FIRST [COUNT]`. A broken promise ends it."""

import gc
import os
import sys
from concurrent.futures import ProcessPoolExecutor

from .plans import plan_of
from .schedule import run, virtual_time

CHUNK = 1000


def chunk(first: int, last: int) -> str:
    """The first seed of these that breaks a promise, and which; "" without any."""
    with virtual_time():
        for seed in range(first, last):
            try:
                run(seed)
            except BaseException as error:
                return f"seed {seed}: {type(error).__name__}: {error}\n{plan_of(seed)}"
    gc.collect()
    return ""


def main(first: int, count: int = 1) -> int:
    bounds = [(at, min(at + CHUNK, first + count)) for at in range(first, first + count, CHUNK)]
    broken = []
    with ProcessPoolExecutor(min(os.cpu_count() or 1, len(bounds))) as pool:
        for number, found in enumerate(pool.map(chunk, *zip(*bounds, strict=True))):
            if found:
                broken.append(found)
                print(found)
            elif number % 10 == 9:
                print(f"{bounds[number][1] - first} schedules", flush=True)
    print(f"{count} schedules, {len(broken)} broken chunks")
    return bool(broken)


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
