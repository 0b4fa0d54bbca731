"""Models of text; copied into the folders that tests serve. What happens to a text is noted by its prompt."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator

import numpy as np

from inferstream import Finished, MLModel, StepModel, Token, Usage
from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.errors import InvalidRequest
from inferstream.types import InferenceRequest, InferenceResponse

CANARY = "canary-/etc/secret-path"


def note(what: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(what + "\n")


def first(request: InferenceRequest) -> str:
    return StringCodec.decode_input(request.inputs[0])[0]


def option(request: InferenceRequest, name: str, default):
    return request.parameters.get(name, default) if request.parameters else default


def pieces(text: str) -> list[str]:
    """The words of a text, each with the space before it."""
    return [word if at == 0 else f" {word}" for at, word in enumerate(text.split(" "))]


class Words(MLModel):
    """Says the prompt again, word by word, in `str`; with `endless` for ever."""

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        request = await anext(payloads)
        text = first(request)
        note(f"start {text}")
        try:
            if option(request, "too_long", False):
                where = {"loc": ["prompt"], "msg": "is longer than the context", "type": "value_error"}
                raise InvalidRequest("The prompt is longer than the context.", detail=[where])
            await asyncio.sleep(option(request, "before", 0))
            for at, word in enumerate(pieces(text)):
                if at == option(request, "fail_at", -1):
                    raise ValueError(CANARY)
                yield word
                await asyncio.sleep(option(request, "pause", 0))
            while option(request, "endless", False):
                await asyncio.sleep(0.01)
                yield " more"
        finally:
            note(f"finally {text}")


class BlockingWords(MLModel):
    """The same, in a thread."""

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[str]:
        request = next(iter(payloads))
        text = first(request)
        note(f"start {text}")
        try:
            yield from pieces(text)
            while option(request, "endless", False):
                time.sleep(0.01)
                yield " more"
        finally:
            note(f"finally {text}")


class Characters(MLModel):
    """Says the prompt again, in items of one byte each, or of as many as `size` says, and names its responses."""

    async def predict_stream(
        self, payloads: AsyncIterator[InferenceRequest]
    ) -> AsyncIterator[InferenceResponse]:
        request = await anext(payloads)
        text, size = first(request).encode(), option(request, "size", 1)
        for at in range(0, len(text), size):
            output = StringCodec.encode_output("text", [text[at : at + size]])
            yield InferenceResponse(model_name=self.name, id="a name of its own", outputs=[output])


def hearing(text: bytes) -> Iterator[str]:
    """Says what a sound says, word by word. The doors of the contract call every input so."""
    yield from pieces(text.decode())


def speaking(text: str) -> Iterator[bytes]:
    """Makes a sound of each word."""
    for word in pieces(text):
        yield word.encode()


class Tokens(MLModel):
    """Tokens with everything that can be said of them; bytes where `bytes` is asked for."""

    gives_logprobs = True

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[Token]:
        request = await anext(payloads)
        words = pieces(first(request))
        wanted, top = option(request, "logprobs", False), option(request, "top_logprobs", 0)
        for at, word in enumerate(words):
            last = at == len(words) - 1
            likely = {word: -0.5, " other": -1.5, " third": -2.5}
            yield Token(
                word.encode() if option(request, "bytes", False) else word,
                at,
                -0.5 if wanted else None,
                top_logprobs=dict([*likely.items()][:top]) if wanted and top else None,
                finish_reason=option(request, "reason", "stop") if last else None,
                usage=Usage(prompt_tokens=10, completion_tokens=100 + at) if last else None,
            )


class Saying(MLModel):
    """Says what it was given, as JSON."""

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        request = await anext(payloads)
        inputs = {}
        for tensor in request.inputs:
            if tensor.name in ("images", "audio"):
                inputs[tensor.name] = [bytes(each).hex() for each in tensor.data]
            elif tensor.datatype == "BYTES":
                inputs[tensor.name] = StringCodec.decode_input(tensor)
            else:
                inputs[tensor.name] = NumpyCodec.decode_input(tensor).tolist()
        parameters = {name: value for name, value in request.parameters.items() if name != "headers"}
        yield json.dumps({"inputs": inputs, "parameters": parameters})


class Whole(MLModel):
    """A whole text at once."""

    async def predict(self, payload: InferenceRequest) -> str:
        text = first(payload)
        note(f"start {text}")
        try:
            await asyncio.sleep(option(payload, "seconds", 0))
            return f"all of {text}"
        finally:
            note(f"finally {text}")


class State:
    def __init__(self, request: InferenceRequest) -> None:
        self.text = first(request)
        self.words = pieces(self.text)
        self.endless = option(request, "endless", False)


class Steps(StepModel):
    """Says the prompts of all texts again, a word of each in every step."""

    async def admit(self, request: InferenceRequest) -> State:
        note(f"start {first(request)}")
        return State(request)

    async def step(self, states: list[State]) -> list:
        await asyncio.sleep(0.002)
        return [self.next(state) for state in states]

    def next(self, state: State) -> object:
        if state.endless and not state.words:
            return " more"
        word = state.words.pop(0)
        return word if state.words or state.endless else Finished(word)

    async def release(self, state: State) -> None:
        note(f"finally {state.text}")


class Vectors(MLModel):
    """Four numbers for each text: its length and three constants."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        texts = StringCodec.decode_input(payload.inputs[0])
        vectors = np.array([[len(text), 3.0, 4.0, 0.0] for text in texts], dtype=np.float32)
        output = NumpyCodec.encode_output("vectors", vectors)
        return InferenceResponse(model_name=self.name, outputs=[output])
