"""Serialises responses in the Ollama format, complete or as JSON lines."""

from collections.abc import Sequence
from datetime import UTC, datetime
from time import perf_counter_ns
from typing import Any

import orjson

from inferstream.errors import InferstreamError

from ..context_length import read_overflow
from ..reader import LENGTH, TextReader
from ..text_dialect import TextFormat, take_logprobs
from ..tools import parse_arguments


def timestamp(seconds: float | None = None) -> str:
    """Format a time, by default the current time, as Ollama does."""
    time = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def error_object(error: InferstreamError) -> dict[str, Any]:
    """Return the body of an error response, which is also the last line of a stream that fails."""
    overflow = "the input length exceeds the context length: " if read_overflow(error) else ""
    return {"error": overflow + error.message}


class LineFormat(TextFormat):
    """Writes text as a chat message or as a response.

    Tool calls are written after the text, when complete. For most pieces, the JSON around the text is
    constant, so it is serialised once.
    """

    media_type = b"application/x-ndjson"

    def __init__(self, model: str, *, chat: bool) -> None:
        self._model = model
        self._chat = chat
        self._created = timestamp()
        self._started = perf_counter_ns()
        self._first = 0
        """Time of the first piece in nanoseconds, or 0 before it."""
        self._before = self._after = b""

    @property
    def heartbeat(self) -> bytes:
        """A piece without text. Clients of `/api/generate` accept it only with a `thinking` field."""
        return _line(self._document("", False, thinking=""))

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        before = self._before
        if not before or reader.logprobs or reader.reasoning:
            return self._detailed_line(text, reader)
        return b"%b%b%b" % (before, orjson.dumps(text), self._after) if text else b""

    def last(self, index: int, text: str, reader: TextReader) -> bytes:
        piece = self.piece(index, text, reader)
        if not reader.tool_calls:
            return piece
        return piece + _line(self._document("", False, tool_calls=_calls(reader)))

    def closing(self, readers: Sequence[TextReader]) -> bytes:
        return _line(self._document("", True) | self._ending(readers[0]))

    def collect(self, index: int, text: str, reader: TextReader) -> None:
        self._first = self._first or perf_counter_ns()

    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        [text], [reader] = texts, readers
        calls = {"tool_calls": _calls(reader)} if reader.tool_calls else {}
        document = self._document(text, True, **_thoughts(reader), **calls) | self._ending(reader)
        if reader.logprobs:
            document["logprobs"] = take_logprobs(reader)
        return orjson.dumps(document)

    def load_response(self, leaves: bool) -> bytes:
        """Return the response to a request that only loads or unloads a model."""
        return orjson.dumps(self._document("", True) | {"done_reason": "unload" if leaves else "load"})

    def failure(self, error: InferstreamError) -> bytes:
        return _line(error_object(error))

    def _detailed_line(self, text: str, reader: TextReader) -> bytes:
        """Return the line of the first piece, or of one with reasoning or log probabilities."""
        if not self._before:
            self._first = perf_counter_ns()
            mark = "\u0000"
            line = _line(self._document(mark, False))
            self._before, _, self._after = line.partition(orjson.dumps(mark))
        if reader.logprobs or reader.reasoning:
            logprobs = {"logprobs": take_logprobs(reader)} if reader.logprobs else {}
            return _line(self._document(text, False, **_thoughts(reader)) | logprobs)
        return b"%b%b%b" % (self._before, orjson.dumps(text), self._after) if text else b""

    def _document(self, text: str, done: bool, **more: Any) -> dict[str, Any]:
        head = {"model": self._model, "created_at": self._created}
        if self._chat:
            return {**head, "message": {"role": "assistant", "content": text, **more}, "done": done}
        return {**head, "response": text, **more, "done": done}

    def _ending(self, reader: TextReader) -> dict[str, Any]:
        """Return the finish reason, the token counts and the durations in nanoseconds."""
        now = perf_counter_ns()
        first = self._first or now
        return {
            "done_reason": "length" if reader.finish_reason == LENGTH else "stop",
            "total_duration": now - self._started,
            "load_duration": 0,
            "prompt_eval_count": reader.prompt_tokens or 0,
            "prompt_eval_duration": first - self._started,
            "eval_count": reader.completion_count,
            "eval_duration": now - first,
        }


def _thoughts(reader: TextReader) -> dict[str, str]:
    """Return the reasoning read so far, if any, and clear it in the reader."""
    thoughts, reader.reasoning = reader.reasoning, ""
    return {"thinking": thoughts} if thoughts else {}


def _calls(reader: TextReader) -> list[dict[str, Any]]:
    cut = reader.finish_reason == LENGTH
    calls = [(call["id"], call["function"]["name"], parse_arguments(call, cut)) for call in reader.tool_calls]
    return [
        {"id": id, "function": {"index": index, "name": name, "arguments": arguments}}
        for index, (id, name, arguments) in enumerate(calls)
    ]


def _line(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document) + b"\n"
