"""A model of chat that calls tools, writes JSON and takes images; and one that only continues a prompt."""

import hashlib
import json
import os
from collections.abc import AsyncIterator

from inferstream import InferenceRequest, MLModel, Token, Usage
from inferstream.errors import InvalidRequest

WEATHER = '{"city":"Zürich"}'
PATCHES = {"patch": '{"input":"*** Begin Patch\\n+ü"}', "bare patch": "*** Begin Patch\n+ü"}


def note(line: str) -> None:
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(f"{line}\n")


def texts(request: InferenceRequest, name: str) -> list[bytes]:
    found = [tensor for tensor in request.inputs if tensor.name == name]
    values = [value for tensor in found for value in tensor.data.flat()]
    return [value.encode() if isinstance(value, str) else bytes(value) for value in values]


def call(index: int, name: str, arguments: str) -> list[Token]:
    """One call in three pieces, as language models write them."""
    middle = len(arguments) // 2
    first = {"index": index, "id": f"call_{index}", "type": "function"}
    return [
        Token(tool_calls=[{**first, "function": {"name": name, "arguments": ""}}]),
        Token(tool_calls=[{"index": index, "function": {"arguments": arguments[:middle]}}]),
        Token(tool_calls=[{"index": index, "function": {"arguments": arguments[middle:]}}]),
    ]


class Assistant(MLModel):
    """Does what the last message says."""

    gives_logprobs = True

    async def predict_stream(self, requests: AsyncIterator[InferenceRequest]) -> AsyncIterator[object]:
        async for request in requests:
            try:
                for token in self.tokens(request):
                    yield token
            finally:
                note("ended")

    def tokens(self, request: InferenceRequest):
        messages = json.loads(texts(request, "messages")[0])
        said = dict(request.parameters.items()) if request.parameters is not None else {}
        content = messages[-1]["content"]
        word = content if isinstance(content, str) else ""
        usage = Usage(len(messages), 7)
        if tools := texts(request, "tools"):
            names = [tool["function"]["name"] for tool in json.loads(tools[0])]
            if messages[-1]["role"] == "tool":
                yield f"It is {content}."
                return
            if word == "text first":
                yield Token("Let me look.")
            if word == "mixed":
                left, right = call(0, names[0], WEATHER), call(1, names[-1], "{}")
                for pair in zip(left, right, strict=True):
                    yield from pair
            elif word in PATCHES:
                yield from call(0, names[-1], PATCHES[word])
            elif word == "both":
                yield from call(0, names[0], WEATHER)
                yield from call(1, names[-1], "{}")
            else:
                yield from call(0, names[0], WEATHER)
            yield Token(finish_reason="stop", usage=usage)
        elif format := texts(request, "response_format"):
            yield from ('{"format":', format[0].decode(), "}")
        elif images := texts(request, "images") + texts(request, "audio"):
            yield from (hashlib.sha256(image).hexdigest() for image in images)
        elif word == "parameters":
            yield json.dumps(said, sort_keys=True)
        elif word == "messages":
            yield json.dumps(messages, ensure_ascii=False)
        elif word == "too long":
            sentence = "is longer than the context"
            raise InvalidRequest(
                f"prompt: {sentence}", [{"loc": ["prompt"], "msg": sentence, "type": "value_error"}]
            )
        elif word == "fail":
            yield "one"
            raise ValueError("canary-/etc/secret-path")
        elif word == "filtered":
            yield Token("bad", finish_reason="content_filter")
        elif word == "nothing":
            yield Token(finish_reason="stop", usage=Usage(3, 0))
        elif word == "endless":
            while True:
                yield "on "
        elif said.get("logprobs"):
            for text in ("a", "ß"):
                yield Token(text, logprob=-0.25, top_logprobs={text: -0.25, "z": -2.0})
        else:
            yield from ("Hello", " ", "wörld ")
            yield from (bytes([byte]) for byte in "🎉".encode())
            yield Token(finish_reason="stop", usage=usage)


class Continuing(MLModel):
    """Repeats its prompt word by word."""

    async def predict_stream(self, requests: AsyncIterator[InferenceRequest]) -> AsyncIterator[object]:
        async for request in requests:
            for word in texts(request, "prompt")[0].decode().split(" "):
                yield f"{word} "
