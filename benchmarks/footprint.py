"""What a server costs before and beside its requests: starting, idling, importing, and as everything grows."""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from . import load
from .servers import HERE, MODELS, Target, bare_command, cpu_seconds, free_port, memory, start_ours, stop
from .works import Paced

STARTS = 3

INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of what starts: an installed package has its bytecode, and so has ours after the first start."""


def import_seconds(tree: Path = HERE.parent) -> float:
    """Processor seconds of `import inferstream` from the sources in `tree`, the least of some."""
    code = "import time; t = time.process_time(); import inferstream; print(time.process_time() - t)"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=tree, env=_environment(tree)
        )
        for _ in range(STARTS)
    ]
    return min(float(run.stdout) for run in runs)


def start_figures(
    cpus: set[int], models: int, tree: Path = HERE.parent, starts: int = STARTS
) -> dict[str, float]:
    """Seconds from starting a server to its first 200, processor seconds of it, and memory when it idles."""
    with tempfile.TemporaryDirectory() as folder:
        write_models(Path(folder), models)
        start = [
            sys.executable,
            "-m",
            "inferstream",
            "start",
            folder,
            "--grpc-port",
            "0",
            "--metrics-port",
            "0",
        ]
        return _least(cpus, lambda port: [*start, "--http-port", str(port)], tree, starts)


def bare_start_figures(cpus: set[int]) -> dict[str, float]:
    """The same of a process that only imports and starts uvicorn, FastAPI, grpc.aio and NumPy."""
    return _least(cpus, lambda port: bare_command("fastapi", port))


def _least(
    cpus: set[int], command: Callable[[int], list[str]], tree: Path = HERE.parent, starts: int = STARTS
) -> dict[str, float]:
    found = [_start_once(cpus, command, tree) for _ in range(starts)]
    return {name: min(start[name] for start in found) for name in found[0]}


def write_models(folder: Path, models: int) -> None:
    """So many copies of the small model."""
    for index in range(models):
        copied = Path(shutil.copytree(MODELS / "doubler", folder / f"m{index}"))
        settings = json.loads((copied / "model-settings.json").read_text())
        name = "doubler" if not index else f"m{index}"
        (copied / "model-settings.json").write_text(json.dumps({**settings, "name": name}))


def _environment(tree: Path) -> dict[str, str]:
    return {**INSTALLED, "PYTHONPATH": str(tree)}


def _start_once(cpus: set[int], command: Callable[[int], list[str]], tree: Path) -> dict[str, float]:
    port = free_port()
    started = time.perf_counter()
    process = subprocess.Popen(
        command(port),
        cwd=tree,
        env=_environment(tree),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    while True:
        try:
            if httpx.get(f"http://127.0.0.1:{port}/v2/models/doubler/ready").status_code == 200:
                break
        except httpx.TransportError:
            time.sleep(0.005)
    took = time.perf_counter() - started
    found = {"seconds": took, "cpu": cpu_seconds(process.pid), "rss": memory(process.pid)}
    stop([Target("", process, {})])
    return found


def paced_streams(
    runner: asyncio.Runner, target: Target, paced: Paced, streams: int, seconds: float
) -> dict[str, float]:
    """So many streams at 10 ms a token: the share of the tokens that could come, gaps, memory of the server."""
    port = target.ports[paced.bare if target.name == "bare" else paced.transport]
    rate, gaps = runner.run(paced.run(port, streams, seconds))
    return {
        "share": rate / (streams * 100),
        "gap_p99_ms": sorted(gaps)[int(len(gaps) * 0.99)] * 1e3,
        "rss": memory(target.process.pid),
    }


def first_event_ms(runner: asyncio.Runner, port: int, streams: int = 600) -> float:
    """Median milliseconds from request to first event of a lone caller."""
    return statistics.median(runner.run(load.first_events(port, streams))) * 1e3


def idle_stream_bytes(runner: asyncio.Runner, target: Target, streams: int = 1000) -> float:
    """Memory that one more open stream takes, while its model makes a token a minute."""

    async def held() -> int:
        body = load.http_request("/v2/models/idle/generate_stream", {"inputs": [load.PROMPT]})
        opened = []
        for _ in range(streams):
            reader, writer = await asyncio.open_connection("127.0.0.1", target.ports["rest"])
            writer.write(body)
            await reader.readuntil(b"data: {")
            opened.append(writer)
        found = memory(target.process.pid)
        for writer in opened:
            writer.close()
        return found

    before = memory(target.process.pid)
    return (runner.run(held()) - before) / streams


def cost_by_connections(runner: asyncio.Runner, target: Target, seconds: float) -> dict[int, float]:
    """CPU microseconds of a small request with so many connections at work."""
    return {
        callers: _cost(
            target,
            lambda callers=callers: runner.run(load.rest_infer(target.ports["rest"], callers, seconds)),
        )
        for callers in (1, 32, 1000)
    }


def cost_by_models(runner: asyncio.Runner, cpus: set[int], seconds: float) -> dict[int, float]:
    """CPU microseconds of a small request beside so many loaded models, all servers in turn."""
    with tempfile.TemporaryDirectory() as folder:
        targets = {}
        for models in (1, 1000):
            write_models(Path(folder, str(models)), models)
            targets[models] = start_ours(cpus, str(models), models=Path(folder, str(models)))
        try:
            rounds = [
                {
                    models: _cost(
                        target,
                        lambda target=target: runner.run(load.rest_infer(target.ports["rest"], 32, seconds)),
                    )
                    for models, target in targets.items()
                }
                for _ in range(STARTS)
            ]
        finally:
            stop(list(targets.values()))
    return {models: statistics.median(found[models] for found in rounds) for models in targets}


def _cost(target: Target, work: Callable[[], int]) -> float:
    before = cpu_seconds(target.process.pid)
    units = work()
    return (cpu_seconds(target.process.pid) - before) / units * 1e6
