"""Functions of every kind; copied as app.py into the folder that the tests serve."""
# ruff: noqa: ASYNC251, F821  # blocks on purpose; names of dimensions are no names of types

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from inferstream import (
    App,
    Depends,
    Finished,
    Headers,
    ModelError,
    RequestContext,
    State,
    TensorInput,
    TensorOutput,
)

app = App()


def note(what: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(f"{what}\n")


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: float = 0.5


@app.on_load
async def loads() -> None:
    note(f"loads {os.getpid()}")
    app.state.greeting = "hello"


@app.on_unload
def unloads() -> None:
    note(f"unloads {os.getpid()}")


@app.model
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@app.model(version="2")
def versioned(a: int) -> str:
    return f"two {a}"


@app.model("versioned", version="10")
def versioned_ten(a: int) -> str:
    return f"ten {a}"


@app.model
def everything(
    text: str,
    raw: bytes,
    number: Annotated[float, Field(ge=0)],
    flag: bool,
    when: datetime,
    words: list[str],
    choice: Literal["a", "b"],
    color: Color,
    point: Point,
    free: dict[str, Any],
    count: int | None = None,
) -> dict[str, Any]:
    return {
        "text": text,
        "raw": raw.hex(),
        "number": number,
        "flag": flag,
        "when": when.isoformat(),
        "words": words,
        "choice": choice,
        "color": color.name,
        "point": [point.x, point.y],
        "free": free,
        "count": count,
    }


@app.model
def nullable(
    number: int | None = 5,
    text: str | None = "text",
    point: Point | None = Point(1),  # noqa: B008
    free: Any = 3,
) -> list[str]:
    return [*map(repr, (number, text, point, free))]


@app.model
async def scaled(
    x: TensorInput[np.float32, "n", 2], w: TensorInput[np.float32, "n"]
) -> TensorOutput[np.float32, "n", 2]:
    return x * w[:, None]


@app.model
async def generate(prompt: str, max_tokens: int = 3, temperature: float = 1.0) -> AsyncIterator[str]:
    """Say a prompt again and again."""
    for index in range(max_tokens):
        await asyncio.sleep(0)
        yield f"{prompt}{index} "


@app.model(streaming=True)
async def spelled(prompt: str, max_tokens: int = 3) -> str:
    for index in range(max_tokens):
        await asyncio.sleep(0)
        yield f"{prompt}{index} "


@app.model
def blocking(prompt: str, max_tokens: int = 3) -> Iterator[str]:
    for index in range(max_tokens):
        yield f"{prompt}{index} "


@app.model
def returning(prompt: str, max_tokens: int = 3) -> AsyncIterator[str]:
    return generate(prompt, max_tokens)


@app.model
async def running(xs: AsyncIterator[int], start: int = 0) -> AsyncIterator[int]:
    async for x in xs:
        start += x
        yield start


@app.model
def blocking_running(xs: Iterator[int], start: int = 0) -> Iterator[int]:
    for x in xs:
        start += x
        yield start


@app.model
async def total(xs: AsyncIterator[int], start: int = 0) -> int:
    return start + sum([x async for x in xs])


@app.model
def blocking_total(xs: Iterator[int], start: int = 0) -> int:
    return start + sum(xs)


@app.model
async def blobs(size: int, count: int) -> AsyncIterator[bytes]:
    for index in range(count):
        yield bytes([index % 256]) * size


async def user(headers: Headers) -> str:
    await asyncio.sleep(0)
    return headers.get("x-user", "nobody")


def sentence(state: State, name: str = Depends(user)) -> str:
    return f"{state.greeting} {name}"


@app.model
async def greeted(said: str = Depends(sentence), name: str = Depends(user)) -> str:
    return f"{said}, {name}"


@app.model
def greeting(context: RequestContext, headers: Headers, said: str = Depends(sentence)) -> Iterator[str]:
    yield said
    yield context.headers.get("x-user", "nobody") + headers.get("x-other", "")


@app.model(batch=64, within_ms=20)
def halves(xs: list[int]) -> list[float]:
    note(f"batch {len(xs)}")
    return [ModelError(f"{x} is odd", 422) if x % 2 else x / 2 for x in xs]  # type: ignore[misc]


@dataclass
class Count:
    left: int
    name: str


@app.steps
def counting(states: list[Count]) -> list[str | Finished]:
    found: list[str | Finished] = []
    for state in states:
        state.left -= 1
        found.append(f"{state.name}{state.left}" if state.left >= 0 else Finished())
    return found


@counting.admit
def admit(name: str, n: Annotated[int, Field(le=1000)] = 3) -> Count:
    note(f"admit {name}")
    return Count(n, name)


@counting.release
def release(state: Count) -> None:
    note(f"release {state.name}")


@app.model
def dozing(seconds: float, n: int = 1) -> Iterator[str]:
    yield threading.current_thread().name
    for index in range(n):
        time.sleep(seconds)
        yield f"{index}"


@app.model
async def on_loop() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


@app.model
async def endless(name: str) -> AsyncIterator[str]:
    try:
        while True:
            await asyncio.sleep(0.01)
            yield name
    finally:
        note(f"left {name}")


@app.model
def endless_blocking(name: str) -> Iterator[str]:
    try:
        while True:
            time.sleep(0.01)
            yield name
    finally:
        note(f"left {name}")


@app.model
async def endless_sleepy(name: str) -> AsyncIterator[str]:
    try:
        while True:
            time.sleep(0.01)
            yield name
    finally:
        note(f"left {name}")


@app.model
def endless_returned(name: str) -> AsyncIterator[str]:
    return endless(name)


@app.model
def endless_needing(name: str, user: str = Depends(user)) -> Iterator[str]:
    yield from endless_blocking(name)


@app.model
def wrong(kind: str) -> int:
    if kind == "raises":
        raise RuntimeError("secret")
    if kind == "refuses":
        raise ModelError("told", 409)
    return "secret"  # type: ignore[return-value]


@app.model
async def failing_later(n: int) -> AsyncIterator[str]:
    for index in range(n):
        yield f"{index}"
    raise ModelError("told later", 409)
