"""Models of every kind, for calls in the process of the test, in workers and over HTTP."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from inferstream import (
    App,
    Depends,
    Finished,
    Headers,
    InferenceRequest,
    InferenceResponse,
    MLModel,
    ModelError,
    NumpyCodec,
    RequestContext,
    State,
    StringCodec,
    request_context,
)

app = App()


class Halves(NamedTuple):
    low: int
    high: int


@dataclass
class Point:
    x: int
    y: int


@app.model
def add(a: int, b: int = 1) -> int:
    return a + b


@app.model
async def shift(point: Point, by: int) -> Point:
    return Point(point.x + by, point.y)


@app.model
def halves(n: int) -> Halves:
    return Halves(n // 2, n - n // 2)


@app.model
def scaled(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x * 2


@app.model
def summed(table: pd.DataFrame) -> float:
    return float(table["a"].sum())


@app.model
def flags(raw: bytes, names: list[str]) -> dict[str, Any]:
    return {name: len(raw) for name in names}


@app.model(batch=4, within_ms=1)
def batched(a: list[int]) -> list[int]:
    return [value * 10 for value in a]


@app.model
def failing(kind: str) -> str:
    if kind == "status":
        raise ModelError("no tea", status_code=418)
    raise ValueError("secret")


@app.model
def count(to: int, fail: bool = False) -> Iterator[int]:
    yield from range(to)
    if fail:
        raise ModelError("no more", status_code=418)


@app.model
async def running(values: AsyncIterator[int]) -> AsyncIterator[int]:
    total = 0
    async for value in values:
        total += value
        yield total


@app.steps
def letters(states: list[list[str]]) -> list[str | Finished]:
    return [state.pop(0) if state else Finished() for state in states]


@letters.admit
def begin(text: str) -> list[str]:
    return [*text]


ended: list[str] = []


@app.model
async def endless(name: str) -> AsyncIterator[int]:
    try:
        while True:
            yield 1
            await asyncio.sleep(0)
    finally:
        ended.append(name)


@app.model
async def waits(x: str) -> str:
    await asyncio.Event().wait()
    return x


def user(headers: Headers) -> str:
    return headers.get("x-user", "nobody")


def greeting(name: Annotated[str, Depends(user)], state: State) -> str:
    return f"hi {name}"


async def later(headers: Headers) -> str:
    return user(headers)


@app.model
def who(x: str, name: Annotated[str, Depends(user)]) -> str:
    return name


@app.model
async def who_async(x: str, name: Annotated[str, Depends(user)]) -> str:
    return name


@app.model
def who_later(x: str, name: str = Depends(later)) -> str:
    return name


@app.model
def who_nested(x: str, hello: Annotated[str, Depends(greeting)]) -> str:
    return hello.removeprefix("hi ")


@app.model
def who_context(x: str, context: RequestContext) -> str:
    return context.headers.get("x-user", "nobody")


@app.model
def who_stream(x: str, name: Annotated[str, Depends(user)]) -> Iterator[str]:
    yield name


@app.model
async def who_async_stream(x: str, name: Annotated[str, Depends(user)]) -> AsyncIterator[str]:
    yield name


@app.model(batch=2, within_ms=1)
def who_batched(x: list[str], name: Annotated[str, Depends(user)]) -> list[str]:
    return [name for _ in x]


@app.steps
def who_steps(states: list[list[str]]) -> list[str | Finished]:
    return [state.pop() if state else Finished() for state in states]


@who_steps.admit
def begin_who(x: str, name: Annotated[str, Depends(user)]) -> list[str]:
    return [name]


class Kept(MLModel):
    """Returns its own array, and writes into what it gets."""

    weights = np.ones(3)

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = NumpyCodec.decode_input(payload.inputs[0])
        if x.flags.writeable:
            x += 1
        return InferenceResponse(
            model_name=self.name, outputs=[NumpyCodec.encode_output("weights", self.weights)]
        )


class Who(MLModel):
    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        headers = (payload.parameters and payload.parameters.headers) or {}
        name = headers.get("x-user", "nobody")
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("o", [name])])


def contexts() -> tuple[Any, ...]:
    try:
        return (request_context(), threading.get_ident())
    except RuntimeError:
        return ()
