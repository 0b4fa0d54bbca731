"""Kills a worker every second under steady load, and counts what the clients saw."""

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
from collections import Counter
from pathlib import Path

import httpx
import orjson

GOAL = 0.995
BACK = 5.0
"""Seconds after the last kill within which the pool has to be full again."""

MODEL = """
import asyncio
import os
from inferstream import MLModel
from inferstream.codecs import NumpyCodec
from inferstream.types import InferenceResponse

class Model(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(0.002)
        array = NumpyCodec.decode_input(payload.inputs[0])
        outputs = [NumpyCodec.encode_output("y", array)]
        return InferenceResponse(model_name=self.name, model_version=str(os.getpid()), outputs=outputs)
"""
BODY = orjson.dumps({"inputs": [{"name": "x", "shape": [4], "datatype": "FP32", "data": [1, 2, 3, 4]}]})


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=60)
    options.add_argument("--rate", type=int, default=100, help="requests per second")
    options.add_argument("--workers", type=int, default=2)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "models", "echo")
        model.mkdir(parents=True)
        (model / "chaos_model.py").write_text(MODEL)
        (model / "model-settings.json").write_text('{"implementation": "chaos_model.Model"}')
        output = Path(folder, "output")
        ports = [part for kind in ("http", "grpc", "metrics") for part in (f"--{kind}-port", "0")]
        with output.open("w") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "inferstream", "start", str(model.parent), *ports],
                env={**os.environ, "INFERSTREAM_PARALLEL_WORKERS": str(given.workers)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            url = address(output)
            return asyncio.run(run(server.pid, url, given.seconds, given.rate, given.workers))
        finally:
            server.terminate()
            print("the server ended with", server.wait(40))
            print(*output.read_text().splitlines()[-40:], sep="\n")


def address(output: Path) -> str:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if found := re.search(r"^REST +(\S+)/docs\n[\s\S]*gRPC ", output.read_text(), re.M):
            return found[1]
        time.sleep(0.05)
    raise SystemExit(output.read_text())


def workers(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return found


async def run(pid: int, url: str, seconds: int, rate: int, size: int) -> int:
    ends: Counter[str] = Counter()
    slowest = 0.0
    killed = 0

    async def ask(client: httpx.AsyncClient) -> None:
        nonlocal slowest
        started = time.monotonic()
        try:
            answer = await client.post(f"{url}/v2/models/echo/infer", content=BODY)
            ends[str(answer.status_code)] += 1
        except httpx.TimeoutException:
            ends["hang"] += 1
        except httpx.HTTPError as error:
            ends[type(error).__name__] += 1
        slowest = max(slowest, time.monotonic() - started)

    async def kill() -> None:
        nonlocal killed
        for _ in range(seconds):
            await asyncio.sleep(1)
            if alive := workers(pid):
                os.kill(random.choice(alive), signal.SIGKILL)
                killed += 1

    async with httpx.AsyncClient(timeout=10, limits=httpx.Limits(max_connections=500)) as client:
        killing = asyncio.create_task(kill())
        asking: set[asyncio.Task[None]] = set()
        start = time.monotonic()
        for i in range(seconds * rate):
            await asyncio.sleep(max(0.0, start + i / rate - time.monotonic()))
            task = asyncio.create_task(ask(client))
            asking.add(task)
            task.add_done_callback(asking.discard)
        await killing
        last = time.monotonic()
        await asyncio.gather(*asking)
        answering: set[int] = set()
        while len(answering & set(workers(pid))) < size and time.monotonic() - last < 60:
            answer = await client.post(f"{url}/v2/models/echo/infer", content=BODY)
            if answer.status_code == 200:
                answering.add(int(answer.json()["model_version"]))
        back = time.monotonic() - last
    total = sum(ends.values())
    success = ends["200"] / total
    print(f"{total} requests, {killed} kills: {dict(ends)}")
    print(
        f"success {success:.2%} (goal {GOAL:.1%}), slowest answer {slowest:.2f} s, pool full after {back:.2f} s"
    )
    good = success >= GOAL and back <= BACK and not ends["404"] and not ends["hang"]
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
