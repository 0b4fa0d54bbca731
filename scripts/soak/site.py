"""The server under load, what its clients ask for, and how each call ended."""

import asyncio
import random
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

MODELS = {"near": 0, "kept": 2, "killed": 2}
"""Worker processes of each model. The workers of the last one are killed."""

DEADLINES = ("504", "deadline_exceeded", "timeout", "timeout_error", "DEADLINE_EXCEEDED")
"""What a call says whose deadline passes."""

KILLED = ("503", "worker_lost", "not_ready", "UNAVAILABLE", "server_error", "api_error")
"""What a call says whose worker is killed, or that finds no worker; its message names the worker or the model."""


@dataclass(frozen=True)
class Ask:
    """What a client asks a model for, and what it does then."""

    model: str
    way: str
    items: int
    size: int
    seconds: float

    @property
    def parameters(self) -> dict[str, float]:
        return {"items": self.items, "size": self.size, "seconds": self.seconds}

    def end(self, text: str) -> str:
        """Whether an answer has each word that was asked for, once, in order."""
        return "ok" if list(map(int, re.findall(r"#(\d+) x", text))) == [*range(self.items)] else "wrong"


def draw(choose: random.Random) -> Ask:
    """A whole answer, or one that the deadline or the client itself ends first."""
    model = choose.choice([*MODELS])
    way = choose.choices(("whole", "deadline", "leaves"), (8, 1, 1))[0]
    if way == "whole":
        return Ask(model, way, choose.choice((1, 5, 20)), choose.choice((1, 10, 1000)), 0)
    return Ask(model, way, 10**5, 10, choose.choice((0.001, 0.01)))


@dataclass
class Site:
    """Addresses of the server, and how the calls to it ended, by kind of client."""

    url: str
    http_port: int
    grpc_port: int
    ends: Counter[str] = field(default_factory=Counter)
    visits: Counter[str] = field(default_factory=Counter)
    unexplained: Counter[str] = field(default_factory=Counter)

    @property
    def calls(self) -> int:
        return self.ends.total()

    def note(self, client: str, model: str, end: str, *explained: str, said: str = "") -> None:
        """Count the end of a call. Only what the client did, or a kill, explains another end than "ok"."""
        self.ends[f"{client}: {end}"] += 1
        by_kill = model == "killed" and end in KILLED and re.search(r"worker|not ready", said)
        if end != "ok" and end not in explained and not by_kill:
            self.unexplained[f"{client} of {model}: {end} {said[:300]}"] += 1


async def send_a_part(port: int, octets: bytes, choose: random.Random) -> None:
    """Send the first of these octets, and leave: with a reset, or an orderly end."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(OSError):
        writer.write(octets[: choose.randrange(1, len(octets))])
        await writer.drain()
        await asyncio.sleep(choose.random() * 0.05)
    if choose.random() < 0.5:
        writer.transport.abort()
    else:
        writer.close()
