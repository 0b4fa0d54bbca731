"""Faults beside the calls: workers that are killed, and models that are loaded again."""

import asyncio
import os
import random
import signal
from contextlib import suppress

import httpx

from .site import MODELS, Site

PAUSE = 0.5
"""Seconds between two faults of a kind, in which calls go on."""


async def kills(site: Site, choose: random.Random) -> None:
    """Kill the worker that has just answered. The next one is killed when one answers again."""
    async with httpx.AsyncClient(base_url=site.url, timeout=60) as client:
        while True:
            answer = await client.post("/v2/models/killed/infer", json={"inputs": []})
            end = "ok" if answer.is_success else f"{answer.status_code}"
            site.note("kills", "killed", end, said=answer.text)
            if answer.is_success:
                break
            await asyncio.sleep(0.05)
    with suppress(ProcessLookupError):
        os.kill(answer.json()["parameters"]["pid"], signal.SIGKILL)
    await asyncio.sleep(PAUSE)


async def reloads(site: Site, choose: random.Random) -> None:
    """Load a model again under its calls, none of which may fail. The kept one keeps its processes."""
    model = choose.choice([name for name in MODELS if name != "kept"])
    async with httpx.AsyncClient(base_url=site.url, timeout=60) as client:
        answer = await client.post(f"/v2/repository/models/{model}/load")
    end = "ok" if answer.is_success else f"{answer.status_code}"
    site.note("reloads", model, end, *(("500",) if model == "killed" else ()), said=answer.text)
    await asyncio.sleep(PAUSE)


CLIENTS = (kills, reloads)
