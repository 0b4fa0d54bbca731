"""Parts common to chat and text completions: request fields, usage, and streaming chunks."""

from abc import abstractmethod
from collections.abc import Sequence
from time import time
from typing import Any, ClassVar

import orjson

from inferstream.errors import InferstreamError
from inferstream.ext import sse

from ..fields import Fields
from ..generation import Generation, expect_logprobs, read_sampling
from ..interface import TextInterface
from ..reader import TextReader
from ..response_format import FORMS
from ..text_dialect import TextFormat
from .errors import error_object

DONE = b"data: [DONE]\n\n"

MAX_CHOICES = 128
"""Maximum number of choices in a request."""

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
"""Fields of both APIs that never become parameters of the model request."""


class ChunkFormat(TextFormat):
    """Writes completions as `choices`.

    For most pieces, the JSON around the text is constant, so it is serialised once.
    """

    prefix: ClassVar[str]
    """Prefix of response IDs."""
    whole_object: ClassVar[str]
    chunk_object: ClassVar[str]

    def __init__(self, id: str, model: str, choices: int, usage: bool, prompts: int = 1) -> None:
        self._id = self.prefix + id
        self._model = model
        self._created = int(time())
        self._usage = usage
        self._prompts = prompts
        self._around: dict[int, tuple[bytes, bytes]] = {}
        """The bytes before and after the text of a piece, by choice index."""

    @abstractmethod
    def choice(self, index: int, text: str, reader: TextReader, finish_reason: str | None) -> dict[str, Any]:
        """Return a choice of a chunk. Clears the reader's lists."""

    @abstractmethod
    def whole_choice(self, index: int, text: str, reader: TextReader) -> dict[str, Any]:
        """Return a choice of a complete response."""

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
        return (self.chunk([], count_usage(readers, self._prompts)) if self._usage else b"") + DONE

    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        choices = [
            self.whole_choice(index, text, reader)
            for index, (text, reader) in enumerate(zip(texts, readers, strict=True))
        ]
        usage = count_usage(readers, self._prompts)
        return orjson.dumps({**self._head(self.whole_object), "choices": choices, "usage": usage})

    def failure(self, error: InferstreamError) -> bytes:
        return sse.event(orjson.dumps(error_object(error)))

    def chunk(self, choices: Sequence[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        """Return an event with these choices."""
        document = {**self._head(self.chunk_object), "choices": choices}
        if self._usage:
            document["usage"] = usage
        return sse.event(orjson.dumps(document))

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _split(self, index: int) -> tuple[bytes, bytes]:
        """Return the bytes of a chunk before and after its text."""
        mark = "\u0000"
        event = self.chunk([self.choice(index, mark, TextReader(), None)])
        before, _, after = event.partition(orjson.dumps(mark))
        self._around[index] = before, after
        return before, after


def count_usage(readers: Sequence[TextReader], prompts: int = 1) -> dict[str, Any]:
    """Return the token counts: from the model, or one completion token per response with text.

    Each prompt is counted once. The completions of a prompt must be adjacent. Reasoning tokens are included
    only if reasoning is detected.
    """
    texts = len(readers) // prompts
    groups = [readers[first : first + texts] for first in range(0, len(readers), texts)]
    prompt = sum(max(reader.prompt_tokens or 0 for reader in group) for group in groups)
    completion = sum(reader.completion_count for reader in readers)
    usage: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    usage["total_tokens"] = prompt + completion
    if cached := sum(max(reader.cached_tokens for reader in group) for group in groups):
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
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
    """Parse the options of a request except the prompt. `logprobs` is the number of top tokens, or None."""
    if logprobs is not None:
        expect_logprobs(interface, "logprobs")
        if logprobs:
            parameters["top_logprobs"] = logprobs
    fields.object("logit_bias")  # checks that it is an object
    parameters |= read_sampling(fields, known)
    names = [name for name in ("max_completion_tokens", "max_tokens") if fields.get(name) != -1]  # unlimited
    limit = next((limit for name in names if (limit := fields.integer(name, 1))), None)
    return Generation(parameters, fields.stop_strings(), limit, logprobs is not None)


def read_streaming(fields: Fields) -> tuple[bool, bool]:
    """Return whether to stream, and whether to include the usage at the end."""
    streamed, options = fields.flag("stream"), fields.object("stream_options")
    if options is not None and not streamed:
        raise fields.wrong("stream_options", "needs stream to be true")
    if options is not None and options.flag("continuous_usage_stats"):
        raise options.wrong("continuous_usage_stats", "is not taken; the last chunk has the usage")
    return streamed, options is not None and options.flag("include_usage")
