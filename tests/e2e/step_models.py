"""Models that advance all their streams at once; copied into the folder the tests serve."""

import os
import time
from pathlib import Path

from inferstream import Finished, StepModel, request_context
from inferstream.codecs import StringCodec
from inferstream.errors import ModelError
from inferstream.types import InferenceRequest, InferenceResponse


def note(what: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(f"{what}\n")


class State:
    def __init__(self, request: InferenceRequest) -> None:
        self.id = request.id
        self.said = 0
        self.options = request.parameters
        self.whole = request_context().single


class Counting(StepModel):
    """Counts as far as it is asked to, in a thread; what happens to its states is noted."""

    def admit(self, request: InferenceRequest) -> State:
        if request.parameters.get("refuse", 0):
            raise ModelError("not this one", status_code=409)
        note(f"admit {request.id}")
        return State(request)

    def step(self, states: list[State]) -> list:
        time.sleep(0.002)
        if any(state.options.get("break_at", -1) == state.said for state in states):
            raise ValueError("canary-/etc/secret-path")
        return [self.advance(state) if self.may_begin(state) else None for state in states]

    def may_begin(self, state: State) -> bool:
        """Those that ask to be held begin when the test says so."""
        return (
            not state.options.get("held")
            or Path(os.environ["TEST_LOG"]).with_name(f"go-{self.name}").exists()
        )

    def advance(self, state: State) -> object:
        options = state.options
        state.said += 1
        last = state.said >= options.get("items", 3)
        if options.get("fail_at", -1) == state.said:
            return ValueError("canary-/etc/secret-path")
        if state.whole:
            return Finished(self.words(" ".join(f"item {i}" for i in range(state.said)))) if last else None
        response = self.words(f"item {state.said - 1}" + "." * options.get("padding", 0))
        return Finished(response) if last else response

    def words(self, text: str) -> InferenceResponse:
        return self.rows([text])

    def rows(self, texts: list[str]) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, outputs=[StringCodec.encode_output("output", texts)])

    def release(self, state: State) -> None:
        note(f"release {state.id}")

    def unload(self) -> None:
        note("unload")


class AsyncCounting(Counting):
    async def admit(self, request: InferenceRequest) -> State:
        return super().admit(request)

    async def step(self, states: list[State]) -> list:
        return super().step(states)


class Both(Counting):
    """Single answers by `predict`, streams by steps."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows = payload.inputs[0].shape[0]
        return self.rows([f"predicted {rows}"] * rows)
