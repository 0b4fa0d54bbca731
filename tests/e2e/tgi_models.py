"""Models of text for the tests of TGI's routes; copied into the folder the tests serve."""

import os
import time
from collections.abc import AsyncIterator, Iterator

from inferstream import MLModel, Token, Usage, custom_handler
from inferstream.codecs import StringCodec
from inferstream.errors import InvalidRequest
from inferstream.types import InferenceRequest


def note(what: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(f"{what}\n")


def prompt(request: InferenceRequest) -> str:
    return StringCodec.decode_input(request.inputs[0])[0]


def words(text: str) -> Iterator[str]:
    """The words of a text with the spaces before them. Two words are no words but failures."""
    for index, word in enumerate(text.split(" ")):
        if word == "refuse":
            raise InvalidRequest(
                "prompt: is too long", [{"loc": ["prompt"], "msg": "is too long", "type": "value_error"}]
            )
        if word == "fail":
            raise ValueError("canary-/etc/secret-path")
        yield word if not index else f" {word}"


class Words(MLModel):
    """Yields the prompt word by word as it is, or the parameters that it got."""

    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        request = await anext(payloads)
        text = prompt(request)
        if text == "parameters":
            found = dict(request.parameters.items()) if request.parameters else {}
            found.pop("headers", None)
            text = " ".join(f"{name}={found[name]}" for name in sorted(found))
        for word in words(text):
            yield word


class Tokens(MLModel):
    """Yields the words of the prompt with numbers and log probabilities, and an end token."""

    gives_logprobs = True

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[Token]:
        request = next(payloads)
        options = request.parameters or {}
        number = 0
        for number, word in enumerate(words(prompt(request)), 1):
            top = {word: -0.5, "other": -1.5} if options.get("top_logprobs") else None
            yield Token(word, number, -0.5 if options.get("logprobs") else None, top_logprobs=top)
        yield Token("", 99, finish_reason="stop", usage=Usage(7, number + 1))


class Bytes(MLModel):
    """Yields the bytes of the prompt one by one."""

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[bytes]:
        for byte in prompt(next(payloads)).encode():
            yield bytes([byte])


class Endless(MLModel):
    """Counts in a thread that it blocks, until its stream is closed."""

    def predict_stream(self, payloads: Iterator[InferenceRequest]) -> Iterator[str]:
        next(payloads)
        note("start endless")
        count = 0
        try:
            while True:
                yield f"{count} "
                count += 1
                time.sleep(0.02)
        finally:
            note("finally endless")


class Formatted(MLModel):
    """Answers with the response format that it got. It does not stream."""

    def predict(self, payload: InferenceRequest) -> str:
        formats = [tensor for tensor in payload.inputs if tensor.name == "response_format"]
        return StringCodec.decode_input(formats[0])[0] if formats else "no format"


class Own(Words):
    """Has routes of its own where TGI's are."""

    @custom_handler("/health", rest_method="GET")
    async def health(self) -> dict[str, str]:
        return {"own": "health"}

    @custom_handler("/generate_stream")
    async def stream(self) -> dict[str, str]:
        return {"own": "stream"}
