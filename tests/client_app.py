"""An app for tests of clients: every kind of value, streams in both directions, and functions that fail."""

import asyncio
import enum
import math
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from pydantic import BaseModel
from typing_extensions import TypedDict

from inferstream import App, Finished, ModelError, TensorInput, TensorOutput, Token

app = App()


class Color(enum.Enum):
    """A color of a light."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Move(TypedDict, total=False):
    by: int


class User(BaseModel):
    name: str
    tags: list[str] = []


class Parts(NamedTuple):
    head: str
    rest: list[str]


def note(line: str) -> None:
    with Path(os.environ["TEST_LOG"]).open("a") as file:
        file.write(f"{line}\n")


@app.model
def add(a: int, b: int = 1) -> int:
    """Add "two" numbers.

    The second is 1 by default.
    """
    return a + b


@app.model
def scale(x: TensorInput[np.float32, "n", 3], by: float = math.inf) -> TensorOutput[np.float32, "n", 3]:  # noqa: F821
    return x * np.float32(by)


@app.model
def shift(
    point: Point, color: Color = Color.RED, mode: Literal["up", "down"] = "up", at: datetime | None = None
) -> Point:
    return Point(point.x + (10 if color is Color.BLUE else 1), point.y + (1 if mode == "up" else -1))


@app.model
def other(color: Color) -> Color:
    return Color.BLUE if color is Color.RED else Color.RED


@app.model
def parts(text: str) -> Parts:
    head, *rest = text.split()
    return Parts(head, rest)


@app.model("greet-all")
def greet(users: list[User], move: Move) -> str:
    return f"{[user.name for user in users]} {move.get('by')}"


@app.model
def reverse(data: bytes, many: list[bytes] | None = None) -> bytes:
    return data[::-1] + b"".join(many or [])


@app.model
def nothing() -> None:
    return None


@app.model
def refuses(status: int) -> int:
    raise ModelError("not today", status)


@app.model
async def generate(prompt: str, n: int = 5, pause: float = 0.0, fail: bool = False) -> AsyncIterator[str]:
    try:
        for index in range(n):
            yield f"{prompt} {index}"
            await asyncio.sleep(pause)
        if fail:
            raise ModelError("broken", 400)
    finally:
        note(f"ended {prompt}")


@app.model
def blocking(n: int) -> Iterator[Point]:
    for index in range(n):
        yield Point(index)


@app.model
async def tokens(prompt: str) -> AsyncIterator[Token]:
    yield Token(prompt, id=7)


@app.model
async def total(n: AsyncIterator[int], start: int = 0) -> AsyncIterator[int]:
    try:
        async for value in n:
            start += value
            yield start
    finally:
        note(f"ended total {start}")


@app.model
async def first(n: AsyncIterator[int]) -> AsyncIterator[int]:
    async for value in n:
        yield value
        return


@app.model
async def summed(n: AsyncIterator[int]) -> int:
    return sum([value async for value in n])


@app.model
async def slow(name: str) -> str:
    try:
        await asyncio.sleep(30)
    finally:
        note(f"ended {name}")
    return name


@app.model(max_concurrency=1, max_queue=1)
async def narrow(pause: float) -> bool:
    await asyncio.sleep(pause)
    return True


@app.steps("count")
def step(states: list[dict[str, int]]) -> list[int | Finished]:
    found: list[int | Finished] = []
    for state in states:
        state["at"] += 1
        found.append(state["at"] if state["at"] <= state["to"] else Finished())
    return found


@step.admit
def admit(to: int) -> dict[str, int]:
    return {"at": 0, "to": to}
