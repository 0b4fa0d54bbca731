"""Asks over every door at once, with faults beside it: no call is lost, and nothing of it stays with the server.

Each round ends with a look at the server, which has to hold no more than after the first one.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import aiohttp
import httpx

from tests.serving import Running, write_model

from . import faults, frames, grpc, http, models
from .holdings import ROUNDS, Look, grown, quiet_look, slopes
from .site import MODELS, Site

Client = Callable[[Site, random.Random], Awaitable[None]]

CLIENTS: dict[str, Client] = {
    **{name: partial(http.visit, name) for name in http.DOORS},
    **{client.__name__: client for client in http.CLIENTS},
    **{f"grpc {client.__name__}": client for client in grpc.CLIENTS},
    **{client.__name__: client for client in (*frames.CLIENTS, *faults.CLIENTS)},
}

PATIENCE = 120
"""Seconds within which the calls of one visit have to end, however busy the machine is."""

TEXTS = {
    "inputs": [
        {"name": "prompt", "datatype": "BYTES", "shape": [1], "parameters": {"optional": True}},
        {"name": "x", "datatype": "FP32", "shape": [-1], "parameters": {"optional": True}},
    ],
    "openai": True,
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3600)
    options.add_argument("--calls", type=int, help="end after so many calls, and not after seconds")
    options.add_argument("--rounds", type=int, default=20, help="after a first one that warms the server up")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "models")
        for name, workers in MODELS.items():
            write(root, name, "Words", parallel_workers=workers, **TEXTS)
        write(root, "census", "Census", loop="server")
        server = Running(root, within=120, INFERSTREAM_GRPC_MAX_MESSAGE_LENGTH=str(grpc.LARGEST))
        try:
            wrong = asyncio.run(soak(server, given))
        finally:
            code = server.stop(60)
        print(*[line for line in server.text().splitlines() if "rror" in line][-20:], sep="\n")
    wrong += [f"the server ended with {code}"] if code else []
    print(*(wrong or ["nothing lost, nothing kept"]), sep="\n")
    return 1 if wrong else 0


def write(root: Path, name: str, implementation: str, **settings: object) -> None:
    code = Path(models.__file__).read_text()
    write_model(root, name, f"soaked_models.{implementation}", code, name=name, **settings)


async def soak(server: Running, given: argparse.Namespace) -> list[str]:
    """Rounds of load with a look after each; what is wrong, in words."""
    site = Site(server.url, server.http_port, server.grpc_port)
    kept = await workers_of(server, "kept", MODELS["kept"])
    looks: list[Look] = []
    calls: list[int] = []
    for number in range(given.rounds + 1):
        await load(site, given, number)
        looks.append(await quiet_look(server, kept, looks))
        calls.append(site.calls)
        shown = {name: count for name, count in looks[-1].items() if not name.startswith("inferstream.")}
        print(f"round {number} of {given.rounds}: {site.calls:,} calls,", shown, flush=True)
    print(*(f"{count:9,} {end}" for end, count in sorted(site.ends.items())), sep="\n")
    print("visits:", dict(site.visits))
    wrong = [f"UNEXPLAINED, {count} times: {end}" for end, count in site.unexplained.most_common(20)]
    if more := grown(looks[0], looks[-1]):
        wrong += [f"GROWN {name} by {count}" for name, count in more.items()]
    if given.rounds >= ROUNDS:
        rises, too_much = slopes(looks, calls)
        print("KiB for each million calls:", {name: round(rise) for name, rise in rises.items()})
        wrong += [f"GROWN {name}" for name in too_much]
    return wrong


async def load(site: Site, given: argparse.Namespace, number: int) -> None:
    """Every kind of client at once, each at least once."""
    until = time.monotonic() + given.seconds / (given.rounds + 1)
    enough = (given.calls or 0) * (number + 1) / (given.rounds + 1)

    async def repeat(name: str, client: Client) -> None:
        choose = random.Random(f"{given.seed} {number} {name}")
        while True:
            try:
                async with asyncio.timeout(PATIENCE):
                    await client(site, choose)
            except TimeoutError:
                site.note(name, "", f"no end within {PATIENCE} s")
            except (OSError, aiohttp.ClientError, httpx.HTTPError, asyncio.IncompleteReadError) as error:
                site.note(name, "", "connection lost", said=repr(error))
            site.visits[name] += 1
            if site.calls >= enough if given.calls else time.monotonic() >= until:
                return

    async with asyncio.TaskGroup() as group:
        for name, client in CLIENTS.items():
            group.create_task(repeat(name, client))


async def workers_of(server: Running, model: str, count: int) -> list[int]:
    """Process ids of a model's workers, which take turns."""
    pids: set[int] = set()
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        while len(pids) < count:
            answer = await client.post(f"/v2/models/{model}/infer", json={"inputs": []})
            pids.add(answer.json()["parameters"]["pid"])
    return sorted(pids)


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.exit(main())
