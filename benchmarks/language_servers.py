"""Servers of a language model next to each other: SmolLM2 over `/v1/chat/completions`, interleaved.

All of them run at once, and one is asked at a time: 1 to 32 streams. Those that the environment lacks are left
out. `--weights` names a folder with safetensors for the servers that do not read GGUF files.
"""

import argparse
import asyncio
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import httpx
from rich.console import Console
from rich.table import Table

from .language import smollm2
from .servers import Target, free_port, memory, start_ours, stop, wait_for

TOGETHER = (1, 4, 8, 16, 32)
CONTEXT = 512

OURS = {"llamacpp": "llama_cpp", "openvino": "openvino_genai", "transformers": "transformers"}
"""Our runtimes, and what each needs."""


class Cell(NamedTuple):
    """Of one server at one number of streams."""

    per_second: float
    first: float
    """Seconds until the last stream has its first token."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--uri", type=Path, help=".gguf file of the model")
    options.add_argument("--weights", type=Path, help="folder of the same model with safetensors")
    options.add_argument("--tokens", type=int, default=24, help="most tokens of a stream")
    options.add_argument("--rounds", type=int, default=3, help="measurements of each cell, interleaved")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        targets = start_all((given.uri or smollm2()).resolve(), given.weights, Path(folder))
        try:
            cells = asyncio.run(measure(targets, given.tokens, given.rounds))
            sizes = {target.name: memory(target.process.pid) for target in targets}
        finally:
            stop(targets)
    show(cells, sizes)
    if given.json:
        given.json.write_text(json.dumps(cells, indent=1))


def start_all(uri: Path, weights: Path | None, folder: Path) -> list[Target]:
    """Start each server of which the environment has the libraries."""
    targets: list[Target] = []
    try:
        for runtime, library in OURS.items():
            if importlib.util.find_spec(library):
                targets.append(start_runtime(runtime, uri, folder / runtime))
        for start in (start_llama_server, start_transformers_server):
            target = start(uri, weights)
            if target is None:
                print(f"{start.__name__} is left out: something that it needs is missing")
            else:
                targets.append(target)
    except BaseException:  # also Ctrl+C, which must not leave servers behind
        stop(targets)
        raise
    return targets


def start_runtime(runtime: str, uri: Path, folder: Path) -> Target:
    extra = {"n_ctx" if runtime == "llamacpp" else "max_context": CONTEXT}
    if runtime != "transformers":
        extra["cache_tokens"] = CONTEXT * max(TOGETHER)
    settings = {"name": "m", "implementation": runtime, "max_active": max(TOGETHER)}
    settings["parameters"] = {"uri": str(uri), "extra": extra}
    folder.mkdir()
    (folder / "model-settings.json").write_text(json.dumps(settings))
    (folder / "settings.json").write_text(json.dumps({"model_load_timeout": 600}))
    found = start_ours(os.sched_getaffinity(0), f"inferstream, {runtime}", 0, folder)
    return found._replace(ports={"m": found.ports["rest"]})


def start_llama_server(uri: Path, weights: Path | None) -> Target | None:
    """The server of llama-cpp-python."""
    if not importlib.util.find_spec("llama_cpp") or not importlib.util.find_spec("sse_starlette"):
        return None
    port, threads = free_port(), str(len(os.sched_getaffinity(0)))
    command = ["llama_cpp.server", "--model", str(uri), "--host", "127.0.0.1", "--port", str(port)]
    limits = ["--n_ctx", str(CONTEXT), "--n_threads", threads, "--n_threads_batch", threads]
    limits += ["--interrupt_requests", "False"]  # by default, a new stream ends the one before it
    return _start("llama_cpp.server", [sys.executable, "-m", *command, *limits], {str(uri): port})


def start_transformers_server(uri: Path, weights: Path | None) -> Target | None:
    """`transformers serve`, with its continuous batching."""
    program = Path(sys.executable).with_name("transformers")
    if weights is None or not program.exists():
        return None
    port = free_port()
    command = [str(program), "serve", str(weights), "--host", "127.0.0.1", "--port", str(port)]
    options = ["--continuous-batching", "--device", "cpu", "--dtype", "float32"]
    return _start("transformers serve", [*command, *options], {str(weights): port})


def _start(name: str, command: list[str], ports: dict[str, int]) -> Target | None:
    """The server, or None if it does not start."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    target = Target(name, subprocess.Popen(command, env=environment, **quiet), ports)
    try:
        wait_for(*ports.values(), seconds=60)
    except OSError:
        stop([target])
        return None
    return target


async def measure(targets: list[Target], tokens: int, rounds: int) -> dict[str, dict[int, Cell]]:
    """Return the medians of each server by the number of streams."""
    found: dict[str, dict[int, list[Cell]]] = {target.name: {} for target in targets}
    async with httpx.AsyncClient(timeout=600) as http:
        for target in targets:
            await ask(http, target, "Say yes.", 2)
        for round in range(rounds):
            for streams in TOGETHER:
                for target in targets:
                    prompts = [
                        f"Tell me the long story {index} of {round} and {streams}."
                        for index in range(streams)
                    ]
                    started = time.perf_counter()
                    times = await asyncio.gather(*(ask(http, target, each, tokens) for each in prompts))
                    took = time.perf_counter() - started
                    first = max(each[0] - started for each in times)
                    cell = Cell(sum(map(len, times)) / took, first)
                    found[target.name].setdefault(streams, []).append(cell)
    return {
        name: {
            streams: Cell(*map(statistics.median, zip(*cells, strict=True)))
            for streams, cells in rows.items()
        }
        for name, rows in found.items()
    }


async def ask(http: httpx.AsyncClient, target: Target, prompt: str, tokens: int) -> list[float]:
    """Return when each piece of text of a stream came."""
    ((model, port),) = target.ports.items()
    messages = [{"role": "user", "content": prompt}]
    body = {"model": model, "messages": messages, "max_tokens": tokens, "temperature": 0, "stream": True}
    times = []
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with http.stream("POST", url, json=body) as response:
        assert response.status_code == 200, (target.name, await response.aread())
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            choices = json.loads(line.removeprefix("data: "))["choices"]
            if choices and choices[0]["delta"].get("content"):
                times.append(time.perf_counter())
    assert times, target.name
    return times


def show(cells: dict[str, dict[int, Cell]], sizes: dict[str, int]) -> None:
    values: dict[str, Callable[[Cell], str]] = {
        "tokens/s": lambda cell: f"{cell.per_second:.0f}",
        "seconds to the last first token": lambda cell: f"{cell.first:.2f}",
    }
    console = Console(width=110)
    for title, text in values.items():
        table = Table("server", *map(str, TOGETHER), "MB", title=f"{title}, by streams at once")
        for name, rows in cells.items():
            table.add_row(name, *(text(rows[streams]) for streams in TOGETHER), f"{sizes[name] / 1e6:.0f}")
        console.print(table)


if __name__ == "__main__":
    main()
