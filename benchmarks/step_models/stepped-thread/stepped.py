"""256 tokens without any work: what is left is the cost of the steps."""

from inferstream import Finished, StepModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse

TOKENS = 256


class Stepped(StepModel):
    async def admit(self, request: InferenceRequest) -> list[int]:
        return [0]

    async def step(self, states: list[list[int]]) -> list[InferenceResponse | Finished]:
        return self.advance_all(states)

    def advance_all(self, states: list[list[int]]) -> list[InferenceResponse | Finished]:
        return [self.advance(state) for state in states]

    def advance(self, state: list[int]) -> InferenceResponse | Finished:
        state[0] += 1
        output = StringCodec.encode_output("token", [f" token{state[0]}"])
        response = InferenceResponse(model_name=self.name, outputs=[output])
        return Finished(response) if state[0] == TOKENS else response


class InThread(Stepped):
    def step(self, states: list[list[int]]) -> list[InferenceResponse | Finished]:
        return self.advance_all(states)
