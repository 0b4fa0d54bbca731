"""What a small request over HTTP/1.1 costs a server of one port, beside one whose gRPC has a port of its own."""

import argparse
import asyncio
import os
import statistics

from . import load
from .servers import cpu_seconds, start_ours, stop
from .works import CALLERS


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=6, help="measurements of each server, interleaved")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[-1]})
    with asyncio.Runner(loop_factory=load.wakeful_loop) as runner:
        found = costs_by_ports(runner, {cpus[0]}, given.rounds, given.seconds)
    for name, costs in found.items():
        print(f"{name}: median {statistics.median(costs):.1f} µs of", *(f"{cost:.1f}" for cost in costs))
    print(f"one port by two: {ratio(found):.3f}, the median of {given.rounds} rounds")


def costs_by_ports(
    runner: asyncio.Runner, cpus: set[int], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """CPU microseconds of a request in each round, which begins with either server in turn."""
    targets = [start_ours(cpus, "two ports"), start_ours(cpus, "one port", one_port=True)]
    found: dict[str, list[float]] = {target.name: [] for target in targets}
    try:
        for turn in range(rounds + 1):
            for target in targets[:: -1 if turn % 2 else 1]:
                before = cpu_seconds(target.process.pid)
                requests = runner.run(load.rest_infer(target.ports["rest"], CALLERS, seconds))
                if turn:  # the first round warms up
                    found[target.name].append((cpu_seconds(target.process.pid) - before) / requests * 1e6)
    finally:
        stop(targets)
    return found


def ratio(found: dict[str, list[float]]) -> float:
    """One port by two, the median of all rounds: the two costs of a round were measured after each other."""
    return statistics.median(
        one / two for one, two in zip(found["one port"], found["two ports"], strict=True)
    )


if __name__ == "__main__":
    main()
