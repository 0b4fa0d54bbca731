"""Misuses the gRPC port for an hour in every way that clients do, and looks for what the server keeps of it."""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

import httpx

from scripts.chaos import address
from scripts.grpc_misuse import KINDS, LARGEST, Ends

MODELS = """
import asyncio
import ctypes
import gc
import json
from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceResponse

KEPT = ("Connection", "Stream", "UnaryCall", "StreamingCall", "Call")

def text(model, value):
    return InferenceResponse(model_name=model.name, outputs=[StringCodec.encode_output("text", [value])])

def option(payload, name, default):
    return payload.parameters.get(name, default) if payload.parameters else default

OURS = ("inferstream.server.http2", "inferstream.server.grpc")


class Echo(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(option(payload, "seconds", 0))
        return text(self, "x" * option(payload, "size", 10))

    async def predict_stream(self, payloads):
        async for payload in payloads:
            for _ in range(option(payload, "items", 5)):
                yield text(self, "x" * option(payload, "size", 10))
                await asyncio.sleep(option(payload, "seconds", 0))

class Census(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(0)
        gc.collect()
        # Freed memory stays with the process, and how much depends on how busy the machine was.
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)
        found = {name: 0 for name in KEPT}
        for each in gc.get_objects():
            kind = type(each)
            if kind.__name__ in found and kind.__module__.startswith(OURS):
                found[kind.__name__] += 1
        return text(self, json.dumps({"tasks": len(asyncio.all_tasks()), **found}))
"""

QUIET = 20.0
"""Seconds that the server may take to forget the clients of a round."""

GROWTH = 8192
"""KiB that the memory may grow between the last two quarters of the rounds."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=3600)
    options.add_argument("--rounds", type=int, default=20)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("echo", "census"):
            model = Path(folder, "models", name)
            model.mkdir(parents=True)
            (model / "soaked_models.py").write_text(MODELS)
            implementation = f"soaked_models.{name.capitalize()}"
            (model / "model-settings.json").write_text(json.dumps({"implementation": implementation}))
        output = Path(folder, "output")
        ports = [part for kind in ("http", "grpc", "metrics") for part in (f"--{kind}-port", "0")]
        with output.open("w") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "inferstream", "start", str(Path(folder, "models")), *ports],
                env={
                    **os.environ,
                    "INFERSTREAM_GRPC_MAX_MESSAGE_LENGTH": str(LARGEST),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            url = address(output)
            port = int(re.findall(r"^gRPC +\S*:(\d+)$", output.read_text(), re.M)[0])
            return asyncio.run(soak(server.pid, url, port, given.seconds, given.rounds))
        finally:
            server.terminate()
            print("the server ended with", server.wait(40))
            print(*[line for line in output.read_text().splitlines() if "rror" in line][-20:], sep="\n")


async def soak(pid: int, url: str, port: int, seconds: int, rounds: int) -> int:
    """Rounds of misuse with a look after each; the first one warms the server up."""
    ends: Ends = Counter()
    looks: list[dict[str, int]] = []
    async with httpx.AsyncClient(timeout=60) as client:
        for number in range(rounds + 1):
            await misuse(port, seconds / (rounds + 1), ends)
            looks.append(await quiet_look(pid, client, url, looks))
            print(f"round {number} of {rounds}:", looks[-1], flush=True)
    print("calls and connections:", dict(sorted(ends.items())))
    return judge(looks)


async def misuse(port: int, seconds: float, ends: Ends) -> None:
    """Every kind of client at the same time."""
    until = time.monotonic() + seconds

    async def repeat(kind: Callable[[int, Ends], Awaitable[None]]) -> None:
        while time.monotonic() < until:
            try:
                await asyncio.wait_for(kind(port, ends), 30)
            except (OSError, asyncio.IncompleteReadError):
                ends[f"{kind.__name__}: connection lost"] += 1
            ends[kind.__name__] += 1

    await asyncio.gather(*(repeat(kind) for kind in KINDS))


async def quiet_look(
    pid: int, client: httpx.AsyncClient, url: str, before: list[dict[str, int]]
) -> dict[str, int]:
    """What the server holds, as soon as it holds no more than after the first round, or at last."""
    until = time.monotonic() + QUIET
    while True:
        await asyncio.sleep(1)
        found = await look(pid, client, url)
        kept = [name for name in found if name != "KiB" and before and found[name] > before[0][name]]
        if (before and not kept) or time.monotonic() > until:
            return found


async def look(pid: int, client: httpx.AsyncClient, url: str) -> dict[str, int]:
    response = await client.post(f"{url}/v2/models/census/generate", json={"text": "x"})
    proc = Path("/proc", str(pid))
    memory = (proc / "smaps_rollup").read_text()
    return {
        **json.loads(response.json()["text"]),
        "fds": len(list((proc / "fd").iterdir())),
        "threads": int(re.findall(r"Threads:\s+(\d+)", (proc / "status").read_text())[0]),
        "KiB": sum(map(int, re.findall(r"Private_Dirty:\s+(\d+)", memory))),
    }


def judge(looks: list[dict[str, int]]) -> int:
    """What is counted must be as after the first round. Memory must not go on growing."""
    first, last, rounds = looks[0], looks[-1], looks[1:]
    grown = {name: last[name] - first[name] for name in first if name != "KiB" and last[name] > first[name]}
    quarter = max(1, len(rounds) // 4)
    later = median(each["KiB"] for each in rounds[-quarter:])
    earlier = median(each["KiB"] for each in rounds[-2 * quarter : -quarter] or rounds[:quarter])
    print("grown:", grown or "nothing", f"- memory in the last quarter: {later - earlier:+.0f} KiB")
    return 0 if not grown and later - earlier <= GROWTH else 1


if __name__ == "__main__":
    raise SystemExit(main())
