"""What a noisy key costs a quiet one, and how evenly keys share the tokens of a model with steps."""

import argparse
import asyncio
import hashlib
import json
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from rich.console import Console
from rich.table import Table

from tests.serving import Running, write_model

CODE = """
import asyncio
from inferstream import Finished, StepModel
from inferstream.types import InferenceResponse


class Timed(StepModel):
    async def admit(self, payload):
        return [payload.inputs[0].data.flat()[0]]

    async def step(self, states):
        await asyncio.sleep(0.02)
        emissions = []
        for state in states:
            state[0] -= 1
            response = InferenceResponse(model_name=self.name, outputs=[])
            emissions.append(response if state[0] else Finished(response))
        return emissions
"""
ACTIVE = 8
"""Streams of a step, which takes 20 ms."""
LIMIT = 5
"""Requests of the noisy key in a second; it sends ten times as many."""
RATE = 3
"""Requests of the quiet key in a second."""
TOKENS = 20
WARM = 128
"""Tokens of each key before its tokens are counted: until its first calls have ended, they count as one token each."""
ROUNDS = 4
KEYS = {f"key{number}": f"ifs_key{number}_{secrets.token_urlsafe(32)}" for number in range(32)} | {
    name: f"ifs_{name}_{secrets.token_urlsafe(32)}" for name in ("quiet", "limited", "unlimited")
}


class Heard(NamedTuple):
    """Seconds to the first token and to the end of each stream."""

    first: list[float]
    whole: list[float]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--seconds", type=float, default=40, help="of one case, in four rounds that take turns"
    )
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_model(root, "timed", "timed.Timed", CODE, max_active=ACTIVE)
        (root / "keys.json").write_text(json.dumps({"version": 1, "keys": [_entry(name) for name in KEYS]}))
        (root / "settings.json").write_text(json.dumps({"keys_file": str(root / "keys.json")}))
        server = Running(root)
        try:
            asyncio.run(measure(server.url, given.seconds))
        finally:
            server.stop()


def _entry(name: str) -> dict[str, Any]:
    limits = {"requests_per_second": LIMIT, "burst": 1} if name == "limited" else {}
    digest = hashlib.sha256(KEYS[name].encode()).hexdigest()
    rights = {"scopes": ["infer", "stream"], "models": ["*"], "limits": limits}
    return {"id": name, "principal": name, "sha256": digest, **rights}


async def measure(url: str, seconds: float) -> None:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        table = Table(
            "the quiet key", "p50 ms to the first token", "p99", "p50 ms to the end", "p99", "streams/s"
        )
        noises = {
            "alone": None,
            f"beside a key at 10 x its limit of {LIMIT}/s": "limited",
            "beside that key without a limit": "unlimited",
        }
        heard_of = {case: Heard([], []) for case in noises}
        for _ in range(ROUNDS):
            for case, noisy in noises.items():
                await _listen(client, noisy, seconds / ROUNDS, heard_of[case])
        for case, heard in heard_of.items():
            figures = [f"{1000 * _at(times, part):.1f}" for times in heard for part in (0.5, 0.99)]
            table.add_row(case, *figures, f"{len(heard.whole) / seconds:.2f}")
        Console().print(table)
        used = await _shared(client, seconds)
    index = sum(used) ** 2 / (len(used) * sum(each * each for each in used))
    print(f"{sum(used) / seconds:.0f} tokens/s, each key {min(used)} to {max(used)}.")
    print(f"Jain's index of the tokens of 32 keys with answers of 1 to 32 tokens: {index:.4f}")


async def _listen(client: httpx.AsyncClient, noisy: str | None, seconds: float, heard: Heard) -> None:
    """Add what the quiet key hears in so many seconds, while another one asks ten times as often as it may."""

    async def ask() -> None:
        began, times = time.perf_counter(), list[float]()
        async for _ in _tokens(client, "quiet", TOKENS):
            times.append(time.perf_counter() - began)
        if len(times) == TOKENS:
            heard.first.append(times[0])
            heard.whole.append(times[-1])

    async def make_noise(name: str) -> None:
        async for _ in _tokens(client, name, TOKENS):
            pass

    async with asyncio.TaskGroup() as group:
        noise = (
            None
            if noisy is None
            else group.create_task(_paced(10 * LIMIT, seconds, lambda: make_noise(noisy)))
        )
        await _paced(RATE, seconds, ask)
        if noise is not None:
            noise.cancel()


async def _paced(rate: float, seconds: float, ask: Any) -> None:
    """Ask at a rate, whether or not there are answers, and wait for these."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.TaskGroup() as group:
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
            asking: Coroutine[Any, Any, None] = ask()
            group.create_task(asking)


async def _shared(client: httpx.AsyncClient, seconds: float) -> list[int]:
    """Tokens of each key in so many seconds after the first `WARM`; each has a length of its own."""
    used = dict.fromkeys(list(KEYS)[:32], 0)
    warm = asyncio.Event()

    async def ask_on(name: str, tokens: int) -> None:
        while True:
            async for _ in _tokens(client, name, tokens):
                used[name] += 1
                if min(used.values()) >= WARM:
                    warm.set()

    tasks = [
        asyncio.create_task(ask_on(name, 1 + number))
        for number, name in enumerate(used)
        for _ in range(3 + 32 // (1 + number))
    ]
    async with asyncio.timeout(120):
        await warm.wait()
    before = list(used.values())
    await asyncio.sleep(seconds)
    counted = [after - its for after, its in zip(used.values(), before, strict=True)]
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    return counted


async def _tokens(client: httpx.AsyncClient, name: str, tokens: int) -> AsyncIterator[str]:
    """The events of a stream; none where it is refused."""
    body = {"inputs": [{"name": "n", "datatype": "INT64", "shape": [1], "data": [tokens]}]}
    headers = {"authorization": f"Bearer {KEYS[name]}"}
    path = "/v2/models/timed/infer_stream"
    async with client.stream("POST", path, json=body, headers=headers) as response:
        if response.status_code == 200:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    yield line


def _at(times: list[float], part: float) -> float:
    return sorted(times)[min(int(part * len(times)), len(times) - 1)]


if __name__ == "__main__":
    main()
