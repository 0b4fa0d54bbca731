"""Functions as models: a stream of words, a sum, rows that share a call, and a running total."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from inferstream import App, TensorInput, TensorOutput

app = App()


@app.model
async def words(prompt: str, pause: float = 0.05) -> AsyncIterator[str]:
    """The words of a prompt, one after another."""
    for word in prompt.split():
        await asyncio.sleep(pause)
        yield f"{word} "


@app.model
def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b


@app.model
def scale(
    x: TensorInput[np.float32, "batch", 4],  # noqa: F821  # a name of a dimension
    factor: float = 2.0,
) -> TensorOutput[np.float32, "batch", 4]:  # noqa: F821
    """Each row of four numbers, scaled."""
    return x * np.float32(factor)


@app.model(batch=64, within_ms=5)
def lengths(texts: list[str]) -> list[int]:
    """The length of each text. Requests that arrive within 5 ms share a call."""
    return [len(text) for text in texts]


@app.model
async def total(numbers: AsyncIterator[float]) -> AsyncIterator[float]:
    """The sum so far, after each number that the client sends."""
    so_far = 0.0
    async for number in numbers:
        so_far += number
        yield so_far


@dataclass
class Person:
    """Somebody to greet."""

    name: str
    age: int


@app.model
def greet(person: Person, language: Literal["en", "fr"] = "en") -> str:
    """A greeting."""
    return f"{'Hello' if language == 'en' else 'Bonjour'}, {person.name} ({person.age})"


@app.model
def halve(number: int) -> float:
    """Half of an even number; odd ones are refused."""
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number / 2


app.error(ValueError, status=422)
