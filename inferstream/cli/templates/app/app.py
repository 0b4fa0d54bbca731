"""Two models: a stream of words, and a sum."""

import asyncio
from collections.abc import AsyncIterator

from inferstream import App

app = App()


@app.model
async def words(prompt: str, pause: float = 0.2) -> AsyncIterator[str]:
    """The words of a prompt, one after another."""
    for word in prompt.split():
        await asyncio.sleep(pause)
        yield f"{word} "


@app.model
def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b
