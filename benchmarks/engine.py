"""Front ends of one inference engine: CPU per token, added time to the first token, and memory.

The engine is a fake that serves the protocol vllm.grpc.engine at full speed or at a set pace. Compared are
this server, `smg` (Rust, the same protocol), and `vllm-router` (Rust), which passes HTTP through and so
stands in front of this server: its own process is what counts. Both are installed into environments of
their own. Rounds are interleaved.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

from tests.fake_engine import FakeEngine, write_tokenizer

from .servers import Target, free_port, memory, start_ours, stop, tree_cpu, wait_for

HERE = Path(__file__).parent
STREAMS = (1, 64, 256)
TOKENS = 64
FIRST_ROUNDS = 40
"""Requests one after another whose time to the first token is measured."""

CONTENT = re.compile(rb'"content":"[^"]')
OTHERS = {"smg": "smg==1.13.0", "vllm-router": "vllm-router==0.1.17"}


class Measured(NamedTuple):
    """CPU microseconds of the front end per token, and tokens per second."""

    cost: float
    rate: float


class SteadyEngine(FakeEngine):
    """An engine without the files that control it in tests, which would take most of its time."""

    def read(self, name: str) -> str | None:
        return None

    def note(self, event: str, **values: Any) -> None: ...


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=5, help="measurements of each cell, interleaved")
    options.add_argument("--pace", type=float, default=0.0, help="seconds between two tokens of a stream")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = write_tokenizer(Path(folder, "tokenizer"))
        with serve_engine(tokenizer, given.pace) as engine:
            targets = [each for start in STARTS if (each := start(Path(folder), engine)) is not None]
            targets += start_router(targets[0])
            try:
                figures = measure(targets, engine, tokenizer, given.rounds, given.seconds)
            finally:
                stop(targets)
    show(figures)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


@contextmanager
def serve_engine(tokenizer: Path, pace: float) -> Iterator[int]:
    """The port of an engine in another process."""
    port = free_port()
    process = multiprocessing.get_context("spawn").Process(target=run_engine, args=(port, tokenizer, pace))
    process.start()
    try:
        wait_for(port)
        yield port
    finally:
        process.terminate()
        process.join()


def run_engine(port: int, tokenizer: Path, pace: float) -> None:
    async def serve() -> None:
        server = SteadyEngine(tokenizer, tokenizer.parent / "control", pace=pace).server()
        assert server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        await server.wait_for_termination()

    uvloop.run(serve())


def start_server(folder: Path, engine: int) -> Target:
    models = folder / "models" / "unknown"
    models.mkdir(parents=True)
    settings = {"implementation": "engine", "parameters": {"extra": {"target": f"127.0.0.1:{engine}"}}}
    (models / "model-settings.json").write_text(json.dumps(settings))
    target = start_ours(os.sched_getaffinity(0), "inferstream", models=models.parent)
    return target._replace(ports={"http": target.ports["rest"]})


def start_smg(folder: Path, engine: int) -> Target | None:
    urls = ["--worker-urls", f"grpc://127.0.0.1:{engine}", "--model-path", str(folder / "tokenizer")]
    return start_other("smg", ["launch", *urls, "--backend", "vllm"])


def start_router(ours: Target) -> list[Target]:
    urls = ["--worker-urls", f"http://127.0.0.1:{ours.ports['http']}"]
    started = start_other("vllm-router", [*urls, "--policy", "round_robin"])
    return [] if started is None else [started]


STARTS: tuple[Callable[[Path, int], Target | None], ...] = (start_server, start_smg)


def start_other(name: str, arguments: list[str]) -> Target | None:
    """Start another front end, or say why it is left out."""
    environment = HERE / f".{name}"
    program, port = environment / "bin" / name, free_port()
    try:
        if not program.exists():
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            subprocess.run([environment / "bin" / "pip", "install", "-q", OTHERS[name]], check=True)
    except subprocess.CalledProcessError as error:
        print(f"{name} is left out: {error}")
        return None
    ports = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(free_port())]
    process = subprocess.Popen(
        [program, *arguments, *ports], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(port)
    target = Target(name, process, {"http": port})
    until = time.monotonic() + 30
    while time.monotonic() < until:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            try:
                pool.apply(run_load, (port, 1, 0.01))
                return target
            except (OSError, AssertionError, asyncio.IncompleteReadError):
                time.sleep(0.2)
    stop([target])
    print(f"{name} is left out: it does not serve the model")
    return None


def measure(targets: list[Target], engine: int, tokenizer: Path, rounds: int, seconds: float) -> dict:
    """Medians over the rounds, by front end."""
    cells: dict[tuple[str, int], list[Measured]] = {}
    for index in range(rounds + 1):
        for streams in STREAMS:
            for target in targets:
                measured = measure_once(target, streams, seconds if index else 0.5)
                if index:  # the first round warms up
                    cells.setdefault((target.name, streams), []).append(measured)
    figures: dict = {"tokens": TOKENS, "front ends": {}}
    direct = asyncio.run(time_direct(engine, tokenizer))
    for target in targets:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            first = pool.apply(run_first, (target.ports["http"],))
        figures["front ends"][target.name] = {
            "first token added": first - direct,
            "memory": memory(target.process.pid, "VmHWM"),
            "streams": {streams: describe(cells[target.name, streams]) for streams in STREAMS},
        }
    return figures


def describe(measured: list[Measured]) -> dict[str, float]:
    costs = sorted(each.cost for each in measured)
    rate = statistics.median(each.rate for each in measured)
    return {"cost": statistics.median(costs), "least": costs[0], "most": costs[-1], "rate": rate}


def measure_once(target: Target, streams: int, seconds: float) -> Measured:
    """Load from another process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(time.sleep, (0.1,))
        started, spent = time.perf_counter(), tree_cpu(target.process.pid)
        tokens = pool.apply(run_load, (target.ports["http"], streams, seconds))
        took = time.perf_counter() - started
    return Measured((tree_cpu(target.process.pid) - spent) / tokens * 1e6, tokens / took)


def run_load(port: int, streams: int, seconds: float) -> int:
    """Return the number of tokens that arrived."""

    async def run() -> int:
        until = time.perf_counter() + seconds

        async def call() -> int:
            count = 0
            while count == 0 or time.perf_counter() < until:
                async for _ in read_chunks(port):
                    pass
                count += TOKENS
            return count

        return sum(await asyncio.gather(*(call() for _ in range(streams))))

    return uvloop.run(run())


def run_first(port: int) -> float:
    """Return the median time to the first token, in seconds."""

    async def run() -> list[float]:
        times = []
        for _ in range(FIRST_ROUNDS):
            started, first = time.perf_counter(), None
            async for chunk in read_chunks(port):
                if first is None and CONTENT.search(chunk):
                    first = time.perf_counter() - started
            assert first is not None
            times.append(first)
        return times

    return statistics.median(uvloop.run(run()))


async def read_chunks(port: int) -> AsyncIterator[bytes]:
    """Yield the parts of one streamed chat completion as they arrive."""
    body = json.dumps(
        {
            "model": "unknown",
            "messages": [{"role": "user", "content": "one two three"}],
            "stream": True,
            "max_tokens": TOKENS,
            "ignore_eos": True,
        }
    ).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    fields = ("host: localhost", "connection: close", "content-type: application/json")
    lines = ["POST /v1/chat/completions HTTP/1.1", *fields, f"content-length: {len(body)}", "", ""]
    writer.write("\r\n".join(lines).encode() + body)
    last = b""
    while chunk := await reader.read(65536):
        assert last or chunk.startswith(b"HTTP/1.1 200"), chunk[:300]
        last = last[-100:] + chunk
        yield chunk
    assert b"[DONE]" in last, last
    writer.close()


async def time_direct(engine: int, tokenizer: Path) -> float:
    """The median time to the first token without a front end, in seconds."""
    from inferstream.plugins.llm.engine.protocols import vllm_engine
    from inferstream.plugins.llm.engine.protos import vllm_engine as protos
    from inferstream.plugins.llm.engine.settings import EngineSettings
    from inferstream.plugins.llm.engine.target import EngineTarget

    address, times = f"127.0.0.1:{engine}", []
    target = EngineTarget(address, 1, vllm_engine.VllmEngine(EngineSettings(target=[address])))
    request = protos.Generate(request_id="1", stream=True)
    request.tokenized.input_ids.extend(range(30, 60))
    request.sampling_params.max_tokens, request.sampling_params.ignore_eos = TOKENS, True
    for _ in range(FIRST_ROUNDS):
        started = time.perf_counter()
        call = await target.generate(vllm_engine.GENERATE, request, None)
        await call.read()
        times.append(time.perf_counter() - started)
        while await call.read() is not None:
            pass
    await target.close()
    return statistics.median(times)


def show(figures: dict) -> None:
    table = Table(title="front ends of one engine: CPU µs per token (least to most), by streams at once")
    for column in ("front end", *map(str, STREAMS), "first token", "memory"):
        table.add_column(column, justify="left" if column == "front end" else "right")
    for name, cells in figures["front ends"].items():
        costs = (
            f"{each['cost']:.1f} ({each['least']:.1f} to {each['most']:.1f})"
            for each in cells["streams"].values()
        )
        added = f"+{cells['first token added'] * 1e3:.2f} ms"
        table.add_row(name, *costs, added, f"{cells['memory'] / 1e6:.0f} MB")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
