"""Functions that the page is tried with: texts, numbers, files, hostile words and failures."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from inferstream import InferenceRequest, InferenceResponse, MLModel, TensorInput, TensorOutput
from inferstream.codecs import NumpyCodec

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=1</script>'


def note(line: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as log:
        log.write(f"{line}\n")


async def ticks(prompt: str, count: Annotated[int, Field(ge=1, le=5000)] = 40) -> AsyncIterator[str]:
    """The prompt again and again.

    Args:
        prompt: What to say.
        count: How often.
    """
    try:
        for number in range(5000 if prompt == "go on" else count):
            yield f"{prompt} {number} "
            await asyncio.sleep(0.02)
    finally:
        note("closed")


async def numbers(to: int = 30) -> AsyncIterator[float]:
    """A stream of numbers."""
    for number in range(to):
        await asyncio.sleep(0.005)
        yield number / 2


async def total(numbers: AsyncIterator[float], start: float = 0) -> AsyncIterator[float]:
    """The sum so far, after each number."""
    async for number in numbers:
        start += number
        yield start


def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b


def scale(
    x: TensorInput[np.float32, "batch", 4],  # noqa: F821  # a name of a dimension
    factor: float = 2.0,
) -> TensorOutput[np.float32, "batch", 4]:  # noqa: F821
    """Each row of four numbers, scaled."""
    return x * np.float32(factor)


def picture(image: bytes) -> bytes:
    """The same image."""
    return image


@dataclass
class Person:
    """Somebody."""

    name: str
    age: int


def greet(person: Person, language: Literal["en", "fr"] = "en", loud: bool = False) -> str:
    """A greeting."""
    word = "Hello" if language == "en" else "Bonjour"
    return f"{word}, {person.name} ({person.age}){'!' if loud else '.'}"


def people(count: int = 3) -> list[dict[str, int]]:
    """Rows of named columns."""
    return [{"number": number, "square": number * number} for number in range(count)]


def refuse(number: int) -> int:
    """Takes even numbers."""
    if number % 2:
        raise RuntimeError("odd")
    return number


async def hostile(word: str = HOSTILE) -> AsyncIterator[str]:
    yield word
    yield f" \"{word}' </script>"


hostile.__doc__ = HOSTILE


class Undeclared(MLModel):
    """A class that declares nothing."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        found = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("doubled", found * 2)]
        )


class Rows(MLModel):
    """A class that declares tensors."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        found = NumpyCodec.decode_input(payload.inputs[0])
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("sums", found.sum(axis=1))]
        )
