"""What a call of another model costs a token: a stream alone, and read through a second model, interleaved."""

import argparse
import asyncio
import os
import statistics
from collections.abc import AsyncIterator

from rich.console import Console
from rich.table import Table

from inferstream import App
from inferstream.testing import InProcess, run

from .servers import tree_cpu

app = App()


async def count(n: int) -> AsyncIterator[int]:
    for each in range(n):
        yield each
        if each % 8 == 7:
            await asyncio.sleep(0)


async def here(n: int) -> AsyncIterator[int]:
    async for each in app.models.count(n):
        yield each


async def there(n: int) -> AsyncIterator[int]:
    async for each in app.models.worker(n):
        yield each


app.model(count)
app.model("worker", parallel_workers=1)(count)
app.model(calls=["count"])(here)
app.model(calls=["worker"])(there)

ROWS = {
    "count": "in process",
    "here": "in process, called",
    "worker": "in a worker",
    "there": "in a worker, called",
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--tokens", type=int, default=20_000)
    given = options.parse_args()
    costs = asyncio.run(measure(given.rounds, given.tokens))
    table = Table("the model of the stream", "CPU µs a token", "more than in process")
    for name, row in ROWS.items():
        more = statistics.median(a - b for a, b in zip(costs[name], costs["count"], strict=True))
        table.add_row(row, f"{statistics.median(costs[name]):.1f}", f"{more:+.1f}")
    Console().print(table)


async def measure(rounds: int, tokens: int) -> dict[str, list[float]]:
    """CPU µs a token of each model, one value a round; the first round warms up."""
    costs: dict[str, list[float]] = {name: [] for name in ROWS}
    async with run("benchmarks.calls:app") as client:  # by its name, because workers import it
        for number in range(rounds + 1):
            for name in ROWS:
                cost = await _stream(client, name, tokens)
                if number:
                    costs[name].append(cost)
    return costs


async def _stream(client: InProcess, model: str, tokens: int) -> float:
    before = tree_cpu(os.getpid())
    async for _ in client.stream(model, n=tokens):
        pass
    return (tree_cpu(os.getpid()) - before) / tokens * 1e6


if __name__ == "__main__":
    main()
