"""Models that do what the plan says of the values in their requests."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

from inferstream import Finished, MLModel, StepModel
from inferstream.errors import ModelError
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput

from .ledger import Ledger
from .plans import Work


def request_of(value: int, id: str) -> InferenceRequest:
    tensor = RequestInput(name="x", shape=[1], datatype="INT64", data=[value])
    return InferenceRequest(id=id, inputs=[tensor])


def response_of(values: list[int]) -> InferenceResponse:
    output = ResponseOutput(name="y", shape=[len(values)], datatype="INT64", data=values)
    return InferenceResponse(model_name="m", outputs=[output])


def values_of(tensors: Sequence[Any]) -> list[int]:
    return [int(value) for value in tensors[0].data.flat()]


class Scripted(MLModel):
    ledger: ClassVar[Ledger]

    async def load(self) -> bool:
        return True

    async def unload(self) -> bool:
        return True

    def works(self, values: list[int]) -> list[Work]:
        return [self.ledger.plan.works[value] for value in values]

    async def pause(self, seconds: float, patience: list[int]) -> None:
        """Wait, and ignore so many cancels as `patience` holds."""
        loop = self.ledger.loop
        until = loop.time() + seconds
        while True:
            try:
                if seconds:
                    await asyncio.sleep(max(0.0, until - loop.time()))
                else:
                    await asyncio.sleep(0)
                return
            except asyncio.CancelledError:
                if not patience[0]:
                    raise
                patience[0] -= 1

    async def clean_up(self, works: list[Work]) -> None:
        seconds = max(work.cleanup for work in works)
        if seconds:
            await asyncio.sleep(seconds)


def raise_errors(works: list[Work]) -> None:
    for work in works:
        if work.error == "model":
            raise ModelError("the plan says so")
        if work.error == "bug":
            raise ValueError("the plan says so")


class Plain(Scripted):
    async def predict(self, request: InferenceRequest) -> InferenceResponse:
        values = values_of(request.inputs)
        works = self.works(values)
        patience = [sum(work.swallows for work in works)]
        with self.ledger.execution(values, streams=False):
            try:
                for work in works:
                    for seconds in work.pauses:
                        await self.pause(seconds, patience)
                raise_errors(works)
                return response_of([value * 100 for value in values])
            finally:
                await self.clean_up(works)

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        async for request in payloads:
            values = values_of(request.inputs)
            (work,) = works = self.works(values)
            patience = [work.swallows]
            with self.ledger.execution(values, streams=True):
                try:
                    for number, seconds in enumerate(work.pauses):
                        await self.pause(seconds, patience)
                        yield response_of([values[0] * 100 + number])
                    raise_errors(works)
                finally:
                    await self.clean_up(works)


class Threads(Scripted):
    def predict(self, request: InferenceRequest) -> InferenceResponse:
        values = values_of(request.inputs)
        with self.ledger.execution(values, streams=False):
            raise_errors(self.works(values))
            return response_of([value * 100 for value in values])


class State:
    def __init__(self, value: int, work: Work) -> None:
        self.value = value
        self.work = work
        self.said = 0


class Steps(StepModel):
    """Answers irregularly: nothing, one item, several, an error, an end."""

    ledger: ClassVar[Ledger]

    async def load(self) -> bool:
        return True

    async def unload(self) -> bool:
        return True

    def begin(self, request: InferenceRequest) -> State:
        (value,) = values_of(request.inputs)
        self.ledger.ended(self.ledger.began([value], streams=True))
        work = self.ledger.plan.works[value]
        if work.swallows:
            raise ModelError("the plan says so")
        state = State(value, work)
        self.ledger.states.append(state)
        return state

    def advance(self, states: Sequence[State]) -> list[Any]:
        if any(state not in self.ledger.states for state in states):
            self.ledger.faults.append("a state that was released is part of a step")
        if any(state.work.error == "bug" and state.said >= len(state.work.pauses) for state in states):
            self.ledger.step_failed = True
            raise ValueError("the plan says so")
        return [self.emission(state) for state in states]

    def emission(self, state: State) -> Any:
        left = len(state.work.pauses) - state.said
        if not left:
            return ModelError("the plan says so") if state.work.error else Finished()
        count = min(left, self.ledger.random.choice((0, 1, 1, 2, 3)))
        items = [response_of([state.value * 100 + state.said + i]) for i in range(count)]
        state.said += count
        if count == left and not state.work.error:
            return Finished(*items)
        return items[0] if count == 1 else items or None

    def finish(self, state: State) -> None:
        if state not in self.ledger.states:
            self.ledger.faults.append("a state was released twice")
            return
        self.ledger.states.remove(state)


class AsyncSteps(Steps):
    async def admit(self, request: InferenceRequest) -> State:
        with self.ledger.alone(self):
            await asyncio.sleep(self.ledger.random.choice((0.0, 0.002)))
            return self.begin(request)

    async def step(self, states: Sequence[State]) -> list[Any]:
        with self.ledger.alone(self):
            await asyncio.sleep(max(min(state.work.pauses, default=0.0) for state in states))
            return self.advance(states)

    async def release(self, state: State) -> None:
        with self.ledger.alone(self):
            await asyncio.sleep(0)
            self.finish(state)


class ThreadSteps(Steps):
    def admit(self, request: InferenceRequest) -> State:
        with self.ledger.alone(self):
            return self.begin(request)

    def step(self, states: Sequence[State]) -> list[Any]:
        with self.ledger.alone(self):
            return self.advance(states)

    def release(self, state: State) -> None:
        with self.ledger.alone(self):
            self.finish(state)
