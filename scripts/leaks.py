"""Kills workers over and over under every kind of request, and looks for what the server keeps of it."""

import argparse
import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import httpx
import orjson

from scripts.chaos import address, workers

MODEL = """
import asyncio
import os
from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceResponse

class Model(MLModel):
    def answer(self, payload):
        array = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(
            model_name=self.name,
            model_version=str(os.getpid()),
            outputs=[NumpyCodec.encode_output("y", array)],
        )

    async def predict(self, payload):
        await asyncio.sleep(0.002)
        return self.answer(payload)

    async def predict_stream(self, payloads):
        async for payload in payloads:
            while True:
                yield self.answer(payload)
                await asyncio.sleep(0.002)
"""
SIZES = (4, 150_000)
"""Values in a tensor: one that is copied, and one that travels in shared memory."""


def body(size: int) -> bytes:
    data = [0.5] * size
    return orjson.dumps({"inputs": [{"name": "x", "shape": [size], "datatype": "FP32", "data": data}]})


BODIES = [body(size) for size in SIZES]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=2000)
    options.add_argument("--samples", type=int, default=20)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "models", "echo")
        model.mkdir(parents=True)
        (model / "leaking_model.py").write_text(MODEL)
        (model / "model-settings.json").write_text('{"implementation": "leaking_model.Model"}')
        output = Path(folder, "output")
        ports = [part for kind in ("http", "grpc", "metrics") for part in (f"--{kind}-port", "0")]
        with output.open("w") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "inferstream", "start", str(model.parent), *ports],
                env={**os.environ, "INFERSTREAM_PARALLEL_WORKERS": "2"},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            return asyncio.run(run(server.pid, address(output), given.kills, given.samples))
        finally:
            server.terminate()
            print("the server ended with", server.wait(40))


def kept(pid: int) -> dict[str, int]:
    """What the server holds: open files, mappings of shared memory, threads, and KiB of memory of its own."""
    proc = Path("/proc", str(pid))
    status = (proc / "status").read_text()
    memory = (proc / "smaps_rollup").read_text()
    return {
        "fds": len(list((proc / "fd").iterdir())),
        "shared maps": (proc / "maps").read_text().count("/memfd:"),
        "threads": int(re.findall(r"Threads:\s+(\d+)", status)[0]),
        "children": len(workers(pid)),
        "shm files": len(list(Path("/dev/shm").iterdir())),
        "KiB": sum(map(int, re.findall(r"Private_\w+:\s+(\d+)", memory))),
    }


async def run(pid: int, url: str, kills: int, samples: int) -> int:
    async with httpx.AsyncClient(timeout=10) as client:
        asking = [asyncio.create_task(ask(client, url, i)) for i in range(6)]
        taken = []
        started = time.monotonic()
        for killed in range(kills + 1):
            if killed % max(1, kills // samples) == 0:
                await asyncio.sleep(1)
                taken.append(kept(pid))
                print(killed, "kills", f"{time.monotonic() - started:.0f} s", taken[-1], flush=True)
            if alive := workers(pid):
                with suppress(ProcessLookupError):
                    os.kill(random.choice(alive), signal.SIGKILL)
            await both_back(pid, client, url)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return judge(taken)


async def ask(client: httpx.AsyncClient, url: str, number: int) -> None:
    """Small, large, streamed and left alone: whatever a kill may find in flight."""
    while True:
        with suppress(httpx.HTTPError):
            if number % 3 < 2:
                await client.post(f"{url}/v2/models/echo/infer", content=BODIES[number % 3])
            else:
                async with client.stream(
                    "POST", f"{url}/v2/models/echo/generate_stream", content=BODIES[number % 2]
                ) as stream:
                    async for _ in stream.aiter_raw():
                        if random.random() < 0.05:
                            break
        await asyncio.sleep(0.01)


async def both_back(pid: int, client: httpx.AsyncClient, url: str) -> None:
    """Wait until both workers answer: one that is killed while it starts is started later and later."""
    until = time.monotonic() + 30
    answering: set[str] = set()
    while len(answering & set(map(str, workers(pid)))) < 2:
        if time.monotonic() > until:
            raise SystemExit(f"a worker did not come back: {kept(pid)}")
        answer = await client.post(f"{url}/v2/models/echo/infer", content=BODIES[0])
        if answer.status_code == 200:
            answering.add(answer.json()["model_version"])


def judge(taken: list[dict[str, int]]) -> int:
    """Compare the last quarter with the one before: what leaks with each kill goes on growing."""
    quarter = max(1, len(taken) // 4)
    grown = {
        name: median(sample[name] for sample in taken[-quarter:])
        - median(sample[name] for sample in taken[-2 * quarter : -quarter])
        for name in taken[0]
    }
    print("grown in the last quarter:", grown)
    return 0 if all(growth <= (8192 if name == "KiB" else 4) for name, growth in grown.items()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
