"""Serialises messages and errors in the Anthropic format, complete or as events."""

from collections.abc import Sequence
from typing import Any

import orjson

from inferstream.errors import Code, InferstreamError, InvalidOutput
from inferstream.ext import sse

from ..context_length import read_overflow
from ..reader import LENGTH, TextReader
from ..text_dialect import TextFormat
from ..tools import parse_arguments

REASONS = {LENGTH: "max_tokens", "content_filter": "refusal"}
"""Anthropic stop reasons by finish reason. All others are `end_turn`, `stop_sequence` or `tool_use`."""

TYPES = {
    Code.INVALID: "invalid_request_error",
    Code.UNSUPPORTED: "invalid_request_error",
    Code.UNSUPPORTED_ENCODING: "invalid_request_error",
    Code.TOO_LARGE: "request_too_large",
    Code.UNAUTHENTICATED: "authentication_error",
    Code.PERMISSION_DENIED: "permission_error",
    Code.NOT_FOUND: "not_found_error",
    Code.LIMIT_EXCEEDED: "rate_limit_error",
    Code.OVERLOADED: "overloaded_error",
    Code.DEADLINE_EXCEEDED: "timeout_error",
}
"""Anthropic error types. All other codes are `api_error`."""

PING = sse.named_event("ping", b'{"type":"ping"}')
STOP = sse.named_event("message_stop", b'{"type":"message_stop"}')


def error_object(error: InferstreamError) -> dict[str, Any]:
    """Return the body of an error response, which is also the event of a stream that fails."""
    message = error.message
    if overflow := read_overflow(error):
        message = "prompt is too long: {} tokens > {} maximum".format(*overflow)
    document: dict[str, Any] = {"type": TYPES.get(error.code, "api_error"), "message": message}
    if message.startswith("thread:"):  # lets the Anthropic SDK retry without a thread
        document["details"] = {"error_code": "thread_unsupported_request"}
    return {"type": "error", "error": document}


class MessageFormat(TextFormat):
    """Writes a message as a list of blocks: reasoning, text and tool calls.

    Blocks are sequential, so deltas of other calls stay in the reader until the open block ends. For most
    pieces, the JSON around the text is constant, so it is serialised once per block.
    """

    heartbeat = PING

    def __init__(self, id: str, model: str) -> None:
        self._id = id
        self._model = model
        self._begun = False
        self._block = 0
        """Index of the open block, or of the next one."""
        self._before = b""
        """The text event of the open block up to its text. Empty if no text block is open."""
        self._thinking = False
        """Whether a reasoning block is open."""
        self._call: int | None = None
        """Index of the open call."""
        self._called: set[int] = set()
        """Indices of the calls that have started."""
        self._waiting = 0
        """Number of calls in the reader that wait for the end of the open block."""

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        before = self._before
        if not before or reader.tool_calls or reader.reasoning:
            return self._detailed_events(text, reader)
        return b"%b%b}}\n\n" % (before, orjson.dumps(text)) if text else b""

    def last(self, index: int, text: str, reader: TextReader) -> bytes:
        return self.piece(index, text, reader) + self._close_blocks(reader.tool_calls)

    def closing(self, readers: Sequence[TextReader]) -> bytes:
        delta = _ending(readers[0], called=bool(self._called))
        return _event("message_delta", delta=delta, usage=_usage(readers[0])) + STOP

    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        [text], [reader] = texts, readers
        thought: dict[str, Any] = {"type": "thinking", "thinking": reader.reasoning, "signature": self._id}
        content = [thought] if reader.reasoning else []
        content += [{"type": "text", "text": text}] if text else []
        cut = reader.finish_reason == LENGTH
        for call in reader.tool_calls:
            content.append({**self._use(call), "input": parse_arguments(call, cut)})
        message = self._message(reader)
        return orjson.dumps(
            {**message, "content": content, **_ending(reader, called=bool(reader.tool_calls))}
        )

    def failure(self, error: InferstreamError) -> bytes:
        return sse.named_event("error", orjson.dumps(error_object(error)))

    def _message(self, reader: TextReader) -> dict[str, Any]:
        return {
            "id": f"msg_{self._id}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(reader),
        }

    def _use(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return the start of a call block, without its input."""
        return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {}}

    def _detailed_events(self, text: str, reader: TextReader) -> bytes:
        """Return the events of a piece that opens a block, or has reasoning or tool calls."""
        events = b""
        if not self._begun:
            self._begun = True
            events = _event("message_start", message={**self._message(reader)})
        calls = reader.tool_calls
        if thought := reader.reasoning:
            reader.reasoning = ""
            if not self._thinking:
                block = {"type": "thinking", "thinking": "", "signature": ""}
                events += self._close_blocks(calls) + self._start_block(block)
                self._thinking = True
            events += _delta(self._block, {"type": "thinking_delta", "thinking": thought})
        for piece in [each for each in calls if each["index"] == self._call]:
            calls.remove(piece)
            events += self._arguments_delta(piece)  # the open call must be complete before the text
        if text:
            if not self._before:
                events += self._close_blocks(calls) + self._start_block({"type": "text", "text": ""})
                self._before = _delta(self._block, {"type": "text_delta", "text": ""})[: -len(b'""}}\n\n')]
            events += b"%b%b}}\n\n" % (self._before, orjson.dumps(text))
        events += self._begin(calls.pop(0)) if calls and self._call is None else b""
        self._waiting = len(calls)
        return events

    def _begin(self, call: dict[str, Any]) -> bytes:
        """Return the events that close the open block and start a call."""
        number = call["index"]
        if number in self._called:
            if call["function"]["arguments"] == "{}":  # the input of an empty block
                return b""
            raise InvalidOutput(f"Model {self._model} has gone on with a call behind a text.")
        self._called.add(number)
        events = self._end_block() + self._start_block(self._use(call)) + self._arguments_delta(call)
        self._call = number
        return events

    def _arguments_delta(self, piece: dict[str, Any]) -> bytes:
        arguments = piece["function"]["arguments"]
        return (
            _delta(self._block, {"type": "input_json_delta", "partial_json": arguments}) if arguments else b""
        )

    def _start_block(self, block: dict[str, Any]) -> bytes:
        return _event("content_block_start", index=self._block, content_block=block)

    def _close_blocks(self, calls: list[dict[str, Any]]) -> bytes:
        """Return the events that close the open block and write the waiting calls."""
        events = b"".join(map(self._begin, calls[: self._waiting])) + self._end_block()
        del calls[: self._waiting]
        self._waiting = 0
        return events

    def _end_block(self) -> bytes:
        """Return the event that closes the open block, if any."""
        if not self._before and not self._thinking and self._call is None:
            return b""
        event = _event("content_block_stop", index=self._block)
        if self._thinking:  # clients send back only reasoning with a signature, which the server ignores
            event = _delta(self._block, {"type": "signature_delta", "signature": self._id}) + event
        self._block += 1
        self._before, self._thinking, self._call = b"", False, None
        return event


def _event(kind: str, **fields: Any) -> bytes:
    return sse.named_event(kind, orjson.dumps({"type": kind, **fields}))


def _delta(block: int, delta: dict[str, Any]) -> bytes:
    return _event("content_block_delta", index=block, delta=delta)


def _usage(reader: TextReader) -> dict[str, int]:
    """Return the token counts that the model reports, or one output token per response with text."""
    return {
        "input_tokens": (reader.prompt_tokens or 0) - reader.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reader.cached_tokens,
        "output_tokens": reader.completion_count,
    }


def _ending(reader: TextReader, called: bool) -> dict[str, str | None]:
    reason = REASONS.get(str(reader.finish_reason))
    if reason is None:
        reason = "stop_sequence" if reader.stopped else "tool_use" if called else "end_turn"
    return {"stop_reason": reason, "stop_sequence": reader.stopped or None}
