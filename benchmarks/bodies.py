"""What a large body of each shape costs the server: CPU, memory, and how long everybody else waits.

Each body goes to a fresh server on a core of its own, while the liveness route is asked all the time. Most bodies are
wrong, because the question is what one request can do.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import httpx
from rich.console import Console
from rich.table import Table

from .servers import Target, cpu_seconds, forget_peak, memory, start_ours, stop

MIB = 2**20
MODEL = """
from inferstream import MLModel
from inferstream.types import InferenceResponse, MetadataTensor


class Total(MLModel):
    inputs = [MetadataTensor(name="x", datatype="INT64", shape=[-1])]

    async def predict(self, payload):
        return InferenceResponse(model_name=self.name, outputs=[])
"""
TENSOR = b'{"inputs":[{"name":"x","datatype":"INT64","shape":[%d],"data":[%b]}]}'


class Figures(NamedTuple):
    status: int
    cpu: float
    """Milliseconds of the server."""
    wait: float
    """Milliseconds of the longest wait for the liveness route."""
    memory: float
    """Bytes of memory for each byte of the body."""


def bodies(size: int) -> dict[str, bytes]:
    """Bodies of about `size` bytes."""

    def many(unit: bytes) -> bytes:
        return b",".join([unit] * (size // (len(unit) + 1)))

    keys = b",".join(b'"k%d":1' % number for number in range(size // 12))
    return {
        "small integers": TENSOR % (size // 2, many(b"1")),
        "integers": TENSOR % (size // 3, many(b"-9")),
        "fractions for integers": TENSOR % (1, many(b"-9.5")),
        "rows of one number": TENSOR % (1, many(b"[12345678]")),
        "one text": b'{"inputs":[],"id":"%b"}' % (b'a:\\"' * (size // 4)),
        "texts": TENSOR % (1, many(b'"abcdefghijkl"')),
        "keys": b'{"inputs":[],"parameters":{%b}}' % keys,
        "inputs": b'{"inputs":[%b]}' % many(b'{"name":"x","shape":[1],"datatype":"INT64","data":[1]}'),
        "empty lists": b'{"inputs":[%b]}' % many(b"[]"),
        "depth": b'{"inputs":' + b"[" * size,
        "noise": os.urandom(size),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--megabytes", type=float, nargs="*", default=[4.0, 32.0])
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        os.sched_setaffinity(0, {cpus[-1]})
        for size in given.megabytes:
            table = Table("body", "status", "CPU", "CPU a MB", "longest wait", "memory", title=f"{size:g} MB")
            for name, body in bodies(int(size * MIB)).items():
                rounds = []
                for _ in range(given.rounds):
                    with server(Path(folder), cpus[0]) as target:
                        rounds.append(asyncio.run(measure(target, body)))
                cpu, wait, needed = (median(each[index] for each in rounds) for index in (1, 2, 3))
                table.add_row(
                    name,
                    str(rounds[0].status),
                    f"{cpu:.0f} ms",
                    f"{cpu / (len(body) / MIB):.1f} ms",
                    f"{wait:.0f} ms",
                    f"{needed:.1f} x",
                )
            Console().print(table)


def write(folder: Path) -> None:
    (folder / "total").mkdir()
    (folder / "total" / "model.py").write_text(MODEL)
    (folder / "total" / "model-settings.json").write_text(
        '{"name": "total", "implementation": "model.Total"}'
    )


@contextmanager
def server(folder: Path, cpu: int) -> Iterator[Target]:
    target = start_ours({cpu}, "inferstream", models=folder)
    try:
        yield target
    finally:
        stop([target])


async def measure(target: Target, body: bytes) -> Figures:
    url = f"http://127.0.0.1:{target.ports['rest']}"
    async with httpx.AsyncClient(timeout=300) as client, httpx.AsyncClient() as other:
        await client.post(f"{url}/v2/models/total/infer", content=TENSOR % (1, b"1"))
        await other.get(f"{url}/v2/health/live")
        waits: list[float] = []
        probing = asyncio.create_task(probe(other, f"{url}/v2/health/live", waits))
        forget_peak(target.process.pid)
        before, cpu = memory(target.process.pid), cpu_seconds(target.process.pid)
        response = await client.post(f"{url}/v2/models/total/infer", content=body)
        probing.cancel()
        spent = cpu_seconds(target.process.pid) - cpu
        grown = memory(target.process.pid, "VmHWM") - before
    return Figures(response.status_code, spent * 1000, max(waits, default=0) * 1000, grown / len(body))


async def probe(client: httpx.AsyncClient, url: str, waits: list[float]) -> None:
    while True:
        began = time.perf_counter()
        await client.get(url)
        waits.append(time.perf_counter() - began)
        await asyncio.sleep(0.002)


if __name__ == "__main__":
    main()
