"""An app with every kind of typed RPC."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from inferstream import App, Headers, TensorInput, TensorOutput

app = App()
app.error(LookupError, status=404)


def note(line: str) -> None:
    with Path(os.environ["TEST_LOG"]).open("a") as log:
        log.write(f"{line}\n")


class Parts(NamedTuple):
    text: str
    sizes: list[int]


@app.model
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@app.model
async def echo(
    text: str,
    raw: bytes = b"",
    ratio: float = 0.5,
    yes: bool = False,
    kind: Literal["a", "b"] = "a",
    more: dict | None = None,
) -> dict:
    return {"text": text, "raw": raw.hex(), "ratio": ratio, "yes": yes, "kind": kind, "more": more}


Narrow = TensorInput[np.float32, "batch", 3]
Wide = TensorOutput[np.float64, "batch", 3]


@app.model("my-array")
def array(x: Narrow, factor: float = 2.0) -> Wide:
    return x.astype(np.float64) * factor


@app.model
def parts(texts: list[str]) -> Parts:
    return Parts("".join(texts), [len(text) for text in texts])


@app.model
async def generate(prompt: str, fail_at: int = -1) -> AsyncIterator[str]:
    try:
        for index, word in enumerate(prompt.split()):
            if index == fail_at:
                raise LookupError(f"no word after {word}")
            yield word
    finally:
        note(f"generate closed: {prompt}")


@app.model
def blocking(count: int, tag: str) -> Iterator[int]:
    try:
        for index in range(count):
            time.sleep(0.01)
            yield index
    finally:
        note(f"blocking closed: {tag}")


@app.model
async def endless(tag: str) -> AsyncIterator[int]:
    try:
        number = 0
        while True:
            yield number
            number += 1
            await asyncio.sleep(0.001)
    finally:
        note(f"endless closed: {tag}")


@app.model
async def total(numbers: AsyncIterator[int], start: int = 0) -> int:
    async for number in numbers:
        start += number
    return start


@app.model
async def double(numbers: AsyncIterator[int]) -> AsyncIterator[int]:
    async for number in numbers:
        yield 2 * number


@app.model
async def header(name: str, headers: Headers) -> str:
    return headers.get(name, "")


@app.model
async def fails(what: str) -> None:
    raise {"mapped": LookupError, "other": RuntimeError}[what](f"canary {what}")
