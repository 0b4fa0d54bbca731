"""A language model that generates the words of its prompt, and raises an error at the word `!fail`."""

from collections.abc import AsyncIterator

from inferstream import MLModel, Token
from inferstream.codecs import StringCodec
from inferstream.types import InferenceRequest


class Text(MLModel):
    gives_logprobs = True

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[Token]:
        async for payload in payloads:
            for number, word in enumerate(StringCodec.decode_input(payload.inputs[0])[0].split()):
                if word == "!fail":
                    raise ValueError("the text says that the model shall fail")
                yield Token(f" {word}" if number else word, number, -0.5)
