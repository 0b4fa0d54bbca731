"""What everybody else waits for while a model written `async def` blocks, here and on MLServer, in one run.

Eight callers ask at once for calls, or for streams of items, of 300 ms each that release the interpreter
lock. Meanwhile health, and another model, are asked every 10 ms, whether or not the last answer is there.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import httpx
from rich.console import Console
from rich.table import Table

from .servers import MLSERVER, Target, start_mlserver, start_ours

CALLERS, COST, PERIOD = 8, 0.3, 0.01

HEADER = """
import time
from inferstream import MLModel
from inferstream.types import InferenceResponse, ResponseOutput


def answer(model):
    output = ResponseOutput(name="y", shape=[1], datatype="FP32", data=[1.0])
    return InferenceResponse(model_name=model.name, outputs=[output])
"""

MODELS = {
    "calls": """
class Calls(MLModel):
    async def predict(self, payload):
        time.sleep(COST)
        return answer(self)
""",
    "streams": """
class Streams(MLModel):
    async def predict_stream(self, payloads):
        async for _ in payloads:
            yield answer(self)
            time.sleep(COST)
            yield answer(self)
""",
    "other": """
class Other(MLModel):
    async def predict(self, payload):
        return answer(self)
""",
}

REQUEST = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}]}


class Work(NamedTuple):
    model: str
    action: str


WORKS = {"calls": Work("calls", "infer"), "streams": Work("streams", "infer_stream")}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        targets = start(Path(folder), {cpus[0]})
        os.sched_setaffinity(0, {cpus[-1]})
        try:
            figures = asyncio.run(measure(targets, given.rounds))
        finally:
            for target in targets:
                target.process.terminate()
                target.process.wait(20)
    show(figures)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


def start(folder: Path, cpus: set[int]) -> list[Target]:
    models = folder / "models"
    for name, code in MODELS.items():
        (models / name).mkdir(parents=True)
        (models / name / f"{name}.py").write_text(HEADER + code.replace("COST", str(COST)))
        settings = {"name": name, "implementation": f"{name}.{name.title()}"}
        (models / name / "model-settings.json").write_text(json.dumps(settings))
    targets = [start_ours(cpus, "ours", 0, models), start_ours(cpus, "ours, one worker", 1, models)]
    if MLSERVER.exists():
        theirs = folder / "theirs"
        theirs.mkdir()
        targets.append(start_mlserver(cpus, theirs, models)._replace(name="MLServer, no workers"))
    return targets


async def measure(targets: list[Target], rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Milliseconds of health and of the other model's answers, by work and server."""
    waits: dict[str, dict[str, dict[str, list[float]]]] = {}
    for _ in range(rounds):
        for name, work in WORKS.items():
            for target in targets:
                found = waits.setdefault(name, {}).setdefault(target.name, {"health": [], "other model": []})
                await look(target.ports["rest"], work, found)
    return {
        name: {server: _figures(found) for server, found in servers.items()}
        for name, servers in waits.items()
    }


async def look(port: int, work: Work, found: dict[str, list[float]]) -> None:
    """Ask for everything else while eight calls run."""
    base = f"http://127.0.0.1:{port}"
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=base, timeout=60, limits=limits) as client:
        url = f"/v2/models/{work.model}/{work.action}"
        await client.post("/v2/models/other/infer", json=REQUEST)
        calls = [asyncio.create_task(client.post(url, json=REQUEST)) for _ in range(CALLERS)]
        looks: list[asyncio.Task[None]] = []
        while not all(call.done() for call in calls):
            looks.append(asyncio.create_task(timed(client, "GET", "/v2/health/live", found["health"])))
            other = timed(client, "POST", "/v2/models/other/infer", found["other model"], json=REQUEST)
            looks.append(asyncio.create_task(other))
            await asyncio.sleep(PERIOD)
        await asyncio.gather(*looks)
        for call in calls:
            call.result().raise_for_status()


async def timed(client: httpx.AsyncClient, method: str, url: str, found: list[float], **body: object) -> None:
    started = time.perf_counter()
    (await client.request(method, url, **body)).raise_for_status()
    found.append((time.perf_counter() - started) * 1e3)


def _figures(found: dict[str, list[float]]) -> dict[str, float]:
    figures = {}
    for what, waits in found.items():
        waits.sort()
        figures[f"{what} p50"] = round(waits[len(waits) // 2], 1)
        figures[f"{what} p99"] = round(waits[int(len(waits) * 0.99)], 1)
        figures[f"{what} most"] = round(waits[-1], 1)
    return figures


def show(figures: dict[str, dict[str, dict[str, float]]]) -> None:
    table = Table(title=f"{CALLERS} {'/'.join(WORKS)} that block for {COST * 1e3:.0f} ms, milliseconds")
    for index, column in enumerate(("work", "server", *next(iter(figures["calls"].values())))):
        table.add_column(column, justify="left" if index < 2 else "right")
    for name, servers in figures.items():
        for server, found in servers.items():
            table.add_row(name, server, *(f"{value:,.1f}" for value in found.values()))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
