"""Functions whose streams tests cut, resume and cancel. They note what happens in the file TEST_LOG."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

from inferstream import App, Event

app = App()


def note(line: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as log:
        log.write(f"{line}\n")


@app.model
async def count(key: str, until: int, pause: float = 0.0, every: int = 1) -> AsyncIterator[int]:
    """Numbers; it pauses before each of `every` numbers."""
    note(f"begun {key}")
    try:
        for number in range(until):
            if number % every == 0:
                await asyncio.sleep(pause)
            yield number
        note(f"completed {key}")
    finally:
        note(f"finished {key}")


@app.model
def blocking(key: str, until: int) -> Iterator[str]:
    note(f"begun {key}")
    try:
        for number in range(until):
            yield f"{number} " + "x" * 1000
            note(f"made {key} {number}")
    finally:
        note(f"finished {key}")


@app.model
async def slow(key: str) -> int:
    note(f"begun {key}")
    try:
        await asyncio.sleep(60)
    finally:
        note(f"finished {key}")
    return 1


@app.model
async def breaks(after: int) -> AsyncIterator[int]:
    for number in range(after):
        yield number
    raise RuntimeError("broken")


@app.model
async def render(until: int) -> AsyncIterator[bytes | Event]:
    for number in range(until):
        yield Event("progress", done=number, of=until)
    yield Event("frame", b"\xff\xd8", media_type="image/jpeg")
    yield b"plain"
