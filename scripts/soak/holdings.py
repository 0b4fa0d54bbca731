"""What the server holds between two rounds of load, and whether that goes on growing."""

import asyncio
import json
import re
import time
from pathlib import Path
from statistics import median

import httpx

from tests.serving import Running

Look = dict[str, int]

SETTLED = 20.0
"""Seconds that the server gets to forget the clients of the first round."""

QUIET = 120.0
"""Seconds that it may take to forget those of another one, however busy the machine is."""

SLOPE = 1024
"""KiB that the memory may grow with a million calls."""

NOISE = 2048
"""KiB by which the memory differs between two looks at a server that keeps nothing."""

MEMORY = ("KiB", "KiB of kept workers")

ROUNDS = 8
"""Rounds without which the memory is not judged: the first ones still fill what is kept for good."""


async def quiet_look(server: Running, kept: list[int], before: list[Look]) -> Look:
    """What the server holds, as soon as it holds no more than after the first round, or at last."""
    until = time.monotonic() + (QUIET if before else SETTLED)
    while True:
        await asyncio.sleep(0.5)
        seen = await look(server, kept)
        if time.monotonic() > until or (before and not grown(before[0], seen)):
            return seen


async def look(server: Running, kept: list[int]) -> Look:
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        await trimmed(client, kept)
        answer = await client.post("/v2/models/census/infer", json={"inputs": []})
    assert answer.is_success, answer.text
    proc = Path("/proc", str(server.process.pid))
    return {
        **json.loads(answer.json()["outputs"][0]["data"][0]),
        "files": len(list((proc / "fd").iterdir())),
        "shared maps": (proc / "maps").read_text().count("/memfd:"),
        "threads": int(re.findall(r"Threads:\s+(\d+)", (proc / "status").read_text())[0]),
        "processes": len(server.workers()),
        "KiB": dirty(server.process.pid),
        "KiB of kept workers": sum(map(dirty, kept)),
    }


async def trimmed(client: httpx.AsyncClient, kept: list[int]) -> None:
    """Have each of these workers give back what it does not use."""
    asked: set[int] = set()
    while not asked.issuperset(kept):
        answer = await client.post("/v2/models/kept/infer", json={"inputs": [], "parameters": {"trim": 1}})
        asked.add(answer.json()["parameters"]["pid"])


def dirty(pid: int) -> int:
    """KiB that a process has written and shares with none."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"Private_Dirty:\s+(\d+)", text)))


def grown(first: Look, last: Look) -> Look:
    """What is counted and is more than it was."""
    more = {name: count - first.get(name, 0) for name, count in last.items() if name not in MEMORY}
    return {name: count for name, count in more.items() if count > 0}


def slopes(looks: list[Look], calls: list[int]) -> tuple[dict[str, float], list[str]]:
    """KiB that the memory has grown with a million calls, from the third quarter to the last, and what is too much."""
    quarter = max(1, len(looks) // 4)
    third, last = slice(-2 * quarter, -quarter), slice(-quarter, None)
    millions = (median(calls[last]) - median(calls[third])) / 1e6
    rises = {
        name: median(each[name] for each in looks[last]) - median(each[name] for each in looks[third])
        for name in MEMORY
    }
    too_much = [name for name, rise in rises.items() if rise > NOISE + SLOPE * millions]
    return {name: rise / millions for name, rise in rises.items()}, too_much
