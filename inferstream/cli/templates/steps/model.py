"""Continuous batching: all active streams advance by one item in each step."""

import time
from dataclasses import dataclass

import numpy as np

from inferstream import Finished, StepModel
from inferstream.codecs import NumpyCodec
from inferstream.errors import ModelError
from inferstream.types import InferenceRequest, InferenceResponse


@dataclass
class State:
    upto: int
    said: int = 0


class Model(StepModel):
    def admit(self, request: InferenceRequest) -> State:
        """Return the state of a new stream. An exception rejects only this request."""
        upto = int(NumpyCodec.decode_input(request.inputs[0])[0])
        if upto < 1:
            raise ModelError("upto must be at least 1", status_code=400)
        return State(upto)

    def step(self, states: list[State]) -> list[InferenceResponse | Finished | None]:
        """Return the next item of each stream, in the order of `states`.

        Do the expensive work once for all of them.
        """
        time.sleep(0.05)
        return [self._advance(state) for state in states]

    def release(self, state: State) -> None:
        """Release the resources of a state. Called once per stream, regardless of how the stream finished."""

    def _advance(self, state: State) -> InferenceResponse | Finished:
        state.said += 1
        response = InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[NumpyCodec.encode_output("number", np.array([state.said]))],
        )
        return Finished(response) if state.said == state.upto else response
