"""The same streams by functions, and a small sum: what an app costs beside a class of models."""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import count

from inferstream import App

app = App()

PAUSE = 0.01


@app.model
async def tokens(prompt: str) -> AsyncIterator[str]:
    for i in range(256):
        yield f" token{i}"


@app.model
async def paced(prompt: str) -> AsyncIterator[str]:
    due = time.perf_counter()
    for i in count():
        yield f" token{i}"
        due += PAUSE
        await asyncio.sleep(max(due - time.perf_counter(), 0))


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b


@app.model("add-async")
async def add_async(a: int, b: int = 1) -> int:
    return a + b
