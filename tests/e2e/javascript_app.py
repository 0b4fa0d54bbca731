"""Functions that the tests of the JavaScript client call."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import numpy.typing as npt

from inferstream import App

app = App()
finished: set[str] = set()


@app.model
async def words(prompt: str, pause: float = 0.0) -> AsyncIterator[str]:
    for word in prompt.split():
        await asyncio.sleep(pause)
        yield f"{word} "


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b


@app.model
def double(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return values * 2


@app.model
def size(data: bytes) -> int:
    return len(data)


@app.model
async def breaks(after: int) -> AsyncIterator[int]:
    for number in range(after):
        yield number
    raise RuntimeError("broken")


@app.model
async def endless(key: str) -> AsyncIterator[int]:
    number = 0
    try:
        while True:
            await asyncio.sleep(0.01)
            yield number
            number += 1
    finally:
        finished.add(key)


@app.model
def ended(key: str) -> bool:
    return key in finished
