"""An app whose models call each other: text, tokens, and chunks of audio."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from inferstream import App

app = App()


def note(line: str) -> None:
    with Path(os.environ["TEST_LOG"]).open("a") as log:
        log.write(f"{line}\n")


@app.model(parallel_workers=1)
async def tokens(text: str) -> AsyncIterator[str]:
    try:
        for word in text.split():
            yield word
        while text == "for ever":
            yield text
            await asyncio.sleep(0.01)
    finally:
        note("closed tokens")


@app.model(parallel_workers=2)
def loudness(token: str) -> int:
    if token == "die":
        os._exit(3)
    if token == "raise":
        raise ValueError("no sound")
    return len(token)


@app.model(calls=["tokens", "loudness"])
async def speech(text: str) -> AsyncIterator[bytes]:
    try:
        async for token in app.models.tokens(text):
            yield token.encode() * await app.models.loudness(token)
    finally:
        note("closed speech")


@app.model(calls=["speech"])
async def answer(question: str) -> AsyncIterator[str]:
    try:
        async for chunk in app.models.speech(question):
            yield chunk.decode()
    finally:
        note("closed answer")


@app.model(calls=["loudness"])
def total(text: str) -> int:
    return sum(app.models.loudness(word).result() for word in text.split())
