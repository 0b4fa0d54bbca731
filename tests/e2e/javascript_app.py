"""Functions that the tests of the JavaScript client call."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import numpy as np
import numpy.typing as npt

from inferstream import App, Event

app = App()
finished: set[str] = set()
runs: Counter[str] = Counter()


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


@app.model
async def counting(key: str, until: int, pause: float = 0.0) -> AsyncIterator[int]:
    runs[key] += 1
    for number in range(until):
        await asyncio.sleep(pause)
        yield number


@app.model
def begun(key: str) -> int:
    return runs[key]


@app.model
def frames(count: int) -> Iterator[bytes | Event]:
    for _ in range(count):
        yield Event("frame", b"\xff\xd8", media_type="image/jpeg")


@app.model
async def progress(count: int) -> AsyncIterator[str | Event]:
    for number in range(count):
        yield Event("progress", done=number, of=count)
        yield f"{number} "
    yield Event("progress", done=count, of=count)
