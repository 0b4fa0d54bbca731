"""A step takes 5 ms whatever is in it, as on an accelerator; 64 tokens."""

import time

from inferstream import Finished, StepModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse

TOKENS = 64


class Device(StepModel):
    def admit(self, request: InferenceRequest) -> list[int]:
        return [0]

    def step(self, states: list[list[int]]) -> list[InferenceResponse | Finished]:
        time.sleep(0.005)
        return [self.advance(state) for state in states]

    def advance(self, state: list[int]) -> InferenceResponse | Finished:
        state[0] += 1
        output = StringCodec.encode_output("token", [f" token{state[0]}"])
        response = InferenceResponse(model_name=self.name, outputs=[output])
        return Finished(response) if state[0] == TOKENS else response
