"""The plain format of `/generate`: a prompt, and a flag for streaming."""

from collections.abc import Sequence
from typing import Any

import orjson

from inferstream.errors import InferstreamError
from inferstream.ext import sse
from inferstream.ext.calls import Admission

from ..fields import Fields
from ..generation import Generation, read_sampling
from ..interface import TextInterface
from ..reader import TextReader
from ..schemas import COUNT, FLAG, STRING, STRINGS, object_schema
from ..text_dialect import TextFormat, TextRequest
from .errors import error_object
from .parameters import read_stop
from .tokens import Decided, DecidedTokens

MAX_TOKENS = 128
TEMPERATURE = 0.7
"""Defaults of request fields."""

DONE = b"data: [DONE]\n\n"

PROMPT_SCHEMA = object_schema(
    ("prompt",),
    prompt=STRING,
    max_tokens={**COUNT, "default": MAX_TOKENS},
    temperature={"type": "number", "minimum": 0, "maximum": 2, "default": TEMPERATURE},
    stream=FLAG,
    stop=STRINGS,
    model=STRING,
)

READ = frozenset(("prompt", "model", "max_tokens", "stream", "stop", "stop_sequences"))


class PromptFormat(TextFormat):
    """Writes one event per token with its timing: time to first token, then time since the previous token."""

    def __init__(self) -> None:
        self._tokens = DecidedTokens()
        self._timed = "prefill_time_ms"
        self._collected: list[Decided] = []

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        tokens = self._tokens.decide(text, reader)
        return self._event(tokens[0]) if len(tokens) == 1 else b"".join(map(self._event, tokens))

    def last(self, index: int, text: str, reader: TextReader) -> bytes:
        return b"".join(map(self._event, self._tokens.finish(text, reader)))

    def closing(self, readers: Sequence[TextReader]) -> bytes:
        return DONE

    def collect(self, index: int, text: str, reader: TextReader) -> None:
        self._collected += self._tokens.decide(text, reader)

    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        tokens = self._collected + self._tokens.release("")
        times = [token.seconds for token in tokens] or [0.0]
        ids = [token.id for token in tokens if token.id is not None]
        steps = times[1:]
        document: dict[str, Any] = {
            "text": texts[0],
            "token_ids": ids if len(ids) == len(tokens) else None,
            "num_tokens": readers[0].completion_count,
            "finish_reason": readers[0].finish_reason,
            "prefill_time_ms": _milliseconds(times[0]),
            "step_ms": _milliseconds(sum(steps) / len(steps)) if steps else None,
            "total_time_ms": _milliseconds(sum(times)),
        }
        return orjson.dumps(document)

    def failure(self, error: InferstreamError) -> bytes:
        return sse.event(orjson.dumps(error_object(error)))

    def _event(self, token: Decided) -> bytes:
        timed, self._timed = self._timed, "step_ms"
        return sse.event(
            orjson.dumps({"token": token.text, "token_id": token.id, timed: _milliseconds(token.seconds)})
        )


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def read_prompt(fields: Fields, admission: Admission, interface: TextInterface) -> TextRequest:
    """Parse a request with a prompt. Raises InvalidRequest naming the invalid field."""
    prompt = fields.require_text("prompt")
    parameters = {"temperature": TEMPERATURE, **read_sampling(fields, READ)}
    limit = fields.integer("max_tokens", 1)
    generation = Generation(parameters, read_stop(fields), MAX_TOKENS if limit is None else limit)
    streamed = fields.flag("stream")
    return TextRequest(
        admission, generation, [generation.build_request(interface, prompt, {})], PromptFormat(), streamed
    )
