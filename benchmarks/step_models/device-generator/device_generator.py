"""5 ms a token for a stream by itself, in a generator; 64 tokens."""

import time
from collections.abc import Iterator

from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest, InferenceResponse


class DeviceGenerator(MLModel):
    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[InferenceResponse]:
        for i in range(64):
            time.sleep(0.005)
            yield InferenceResponse(
                model_name=self.name, outputs=[StringCodec.encode_output("token", [f" token{i}"])]
            )
