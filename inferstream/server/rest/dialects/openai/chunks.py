"""Common parts of OpenAI's chat and completions: fields of requests, usage, and events with a part that repeats."""

from abc import abstractmethod
from collections.abc import Sequence
from time import time
from typing import Any, ClassVar

import orjson

from inferstream.ext import sse

from .....errors import InferstreamError
from .....text.fields import Fields
from .....text.generation import Generation, expect_logprobs, sampling
from .....text.interface import TextInterface
from .....text.reader import TextReader
from .....text.response_format import FORMS
from ..text import TextFormat
from .errors import error_object

DONE = b"data: [DONE]\n\n"

MOST_CHOICES = 128
"""Texts of one request."""

UNUSED = frozenset[str]().union(
    ("user", "store", "metadata", "safety_identifier", "service_tier", "priority", "timeout", "prediction"),
    ("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "cache_prompt"),
    ("client_metadata",),
)
"""Fields that only label requests or tune performance."""

GENERAL = frozenset[str]().union(
    ("model", "n", "stream", "stream_options", "stop", "max_tokens", "max_completion_tokens", "logprobs"),
    FORMS,
    UNUSED,
)
"""Fields of chat and completions that never become parameters of the request to the model."""


class ChunkFormat(TextFormat):
    """Writes texts as `choices`. Around the text of most pieces the JSON is the same; a stream makes it once."""

    prefix: ClassVar[str]
    """How ids begin."""
    whole_object: ClassVar[str]
    chunk_object: ClassVar[str]

    def __init__(self, id: str, model: str, choices: int, usage: bool, prompts: int = 1) -> None:
        self._id = self.prefix + id
        self._model = model
        self._created = int(time())
        self._usage = usage
        self._prompts = prompts
        self._around: dict[int, tuple[bytes, bytes]] = {}
        """What comes before and after the text of a piece, by the index of its choice."""

    @abstractmethod
    def choice(self, index: int, text: str, reader: TextReader, finish_reason: str | None) -> dict[str, Any]:
        """A choice of a chunk. Empties the reader's lists."""

    @abstractmethod
    def whole_choice(self, index: int, text: str, reader: TextReader) -> dict[str, Any]:
        """A choice of a whole response."""

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        if reader.logprobs or reader.tool_calls or reader.reasoning:
            return self.chunk([self.choice(index, text, reader, None)])
        if not text:
            return b""
        before, after = self._around.get(index) or self._split(index)
        return b"".join((before, orjson.dumps(text), after))

    def last(self, index: int, text: str, reader: TextReader) -> bytes:
        piece = self.piece(index, text, reader)
        return piece + self.chunk([self.choice(index, "", reader, reader.finish_reason)])

    def closing(self, readers: Sequence[TextReader]) -> bytes:
        return (self.chunk([], usage_of(readers, self._prompts)) if self._usage else b"") + DONE

    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        choices = [
            self.whole_choice(index, text, reader)
            for index, (text, reader) in enumerate(zip(texts, readers, strict=True))
        ]
        usage = usage_of(readers, self._prompts)
        return orjson.dumps({**self._head(self.whole_object), "choices": choices, "usage": usage})

    def failure(self, error: InferstreamError) -> bytes:
        return sse.event(orjson.dumps(error_object(error)))

    def chunk(self, choices: Sequence[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        """An event with these choices."""
        document = {**self._head(self.chunk_object), "choices": choices}
        if self._usage:
            document["usage"] = usage
        return sse.event(orjson.dumps(document))

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _split(self, index: int) -> tuple[bytes, bytes]:
        """The bytes of a chunk before and after its text."""
        mark = "\u0000"
        event = self.chunk([self.choice(index, mark, TextReader(), None)])
        before, _, after = event.partition(orjson.dumps(mark))
        self._around[index] = before, after
        return before, after


def usage_of(readers: Sequence[TextReader], prompts: int = 1) -> dict[str, Any]:
    """Counts of tokens: those of the model, else one for each response. Each of the prompts counts once.

    Texts of the same prompt follow each other. The details are there for models whose reasoning is found.
    """
    texts = len(readers) // prompts
    counts = [reader.prompt_tokens or 0 for reader in readers]
    prompt = sum(max(counts[first : first + texts]) for first in range(0, len(counts), texts))
    completion = sum(reader.completion_count for reader in readers)
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    reasoning = [reader.reasoning_tokens for reader in readers if reader.reasoning_tokens is not None]
    if not reasoning:
        return usage
    return {**usage, "completion_tokens_details": {"reasoning_tokens": min(sum(reasoning), completion)}}


def read_generation(
    fields: Fields,
    interface: TextInterface,
    parameters: dict[str, Any],
    logprobs: int | None,
    known: frozenset[str],
) -> Generation:
    """What is asked of the model, beside the prompt. `logprobs` is the number of most likely tokens, if any."""
    if logprobs is not None:
        expect_logprobs(interface, "logprobs")
        if logprobs:
            parameters["top_logprobs"] = logprobs
    fields.object("logit_bias")  # refuses what is no object
    parameters |= sampling(fields, known)
    names = [name for name in ("max_completion_tokens", "max_tokens") if fields.get(name) != -1]  # no limit
    limit = next((limit for name in names if (limit := fields.integer(name, 1))), None)
    return Generation(parameters, fields.stop(), limit, logprobs is not None)


def read_streaming(fields: Fields) -> tuple[bool, bool]:
    """Whether the client wants a stream, and the usage at its end."""
    streamed, options = fields.flag("stream"), fields.object("stream_options")
    if options is not None and not streamed:
        raise fields.wrong("stream_options", "needs stream to be true")
    if options is not None and options.flag("continuous_usage_stats"):
        raise options.wrong("continuous_usage_stats", "is not taken; the last chunk has the usage")
    return streamed, options is not None and options.flag("include_usage")
