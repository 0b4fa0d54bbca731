"""Serialises responses of the Responses API, complete or as events."""

from collections.abc import Callable, Sequence
from time import time
from typing import Any

import orjson

from inferstream.errors import Code, InferstreamError
from inferstream.ext import sse

from ..chat import NONE
from ..context_length import EXCEEDED, read_overflow
from ..reader import LENGTH, TextReader
from ..text_dialect import TextFormat, take_logprobs
from .chunks import count_usage
from .errors import error_object
from .response_items import Names, Tool, read_free_text
from .states import SealedConversation

COMPLETED = "completed"
INCOMPLETE = "incomplete"

CUT = {LENGTH: "max_output_tokens", "content_filter": "content_filter"}
"""Reasons for an incomplete response, by finish reason."""

FAILURES = {
    Code.INVALID: "invalid_prompt",
    Code.OVERLOADED: "rate_limit_exceeded",
    Code.LIMIT_EXCEEDED: "rate_limit_exceeded",
}
"""Error codes of failed responses. All others are `server_error`."""


class Message:
    """A text item in the output.

    `text` and `around` are prefixes of event types: for pieces of the text, and for the content part.
    """

    text, around = "response.output_text", "response.content_part"

    def __init__(self, id: str, index: int) -> None:
        self.id = f"msg_{id}_{index}"
        self.index = index
        self.place = {"item_id": self.id, "output_index": index, "content_index": 0}
        self.pieces: list[str] = []
        self.logprobs: list[dict[str, Any]] = []
        self.done: dict[str, Any] | None = None
        """The item, once it is complete."""
        around = {"type": "response.output_text.delta", **self.place, "logprobs": []}
        self.before = (
            sse.named_event("response.output_text.delta", orjson.dumps(around))[: -len(b"}\n\n")]
            + b',"delta":'
        )

    def part(self, text: str) -> dict[str, Any]:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": self.logprobs}

    def item(self, status: str) -> dict[str, Any]:
        content = [] if status == "in_progress" else [self.part("".join(self.pieces))]
        return {"id": self.id, "type": "message", "status": status, "role": "assistant", "content": content}


class Reasoning(Message):
    """A reasoning item in the output.

    If the client requests a summary, the reasoning is sent as one, because few clients read anything else.
    """

    text = "response.reasoning_text"

    def __init__(self, id: str, index: int, summary: bool) -> None:
        super().__init__(id, index)
        self.id = f"rs_{id}_{index}"
        self._field, self._kind = ("summary", "summary_text") if summary else ("content", "reasoning_text")
        self.place = {"item_id": self.id, "output_index": index, f"{self._field}_index": 0}
        if summary:
            self.text, self.around = "response.reasoning_summary_text", "response.reasoning_summary_part"

    def part(self, text: str) -> dict[str, Any]:
        return {"type": self._kind, "text": text}

    def item(self, status: str) -> dict[str, Any]:
        parts = [] if status == "in_progress" else [self.part("".join(self.pieces))]
        return {"id": self.id, "type": "reasoning", "status": status, "summary": [], self._field: parts}


class FunctionCall:
    """A tool call in the output, with the tool name that the client uses."""

    def __init__(self, id: str, index: int, call: dict[str, Any], tools: Names) -> None:
        name = call["function"]["name"]
        self.tool = tools.get(name, Tool("", name))
        self.id = f"{'ctc' if self.tool.custom else 'fc'}_{id}_{index}"
        self.index = index
        self.place = {"item_id": self.id, "output_index": index}
        self.call_id = call["id"]
        self.pieces: list[str] = []
        self.done: dict[str, Any] | None = None

    def item(self, status: str) -> dict[str, Any]:
        kind = "custom_tool_call" if self.tool.custom else "function_call"
        named = {"id": self.id, "type": kind, "status": status, "call_id": self.call_id}
        if self.tool.namespace:
            named["namespace"] = self.tool.namespace
        return {**named, "name": self.tool.name, **self.input_so_far()}

    def input_so_far(self) -> dict[str, str]:
        """Return the input of the tool written so far."""
        text = "".join(self.pieces)
        return {"input": read_free_text(text)} if self.tool.custom else {"arguments": text}


class ResponseFormat(TextFormat):
    """Writes the output as a response. Between most events, only the text and the sequence number differ.

    A message is closed where a tool call starts. Deltas of several calls may be interleaved, so calls stay
    open until the response is complete. `document` contains the properties that the request determines. An ID
    that encodes the `conversation` is known only at the end.
    """

    def __init__(
        self,
        id: str,
        document: dict[str, Any],
        conversation: SealedConversation | None = None,
        tools: Names = NONE,
        keep: Callable[[Sequence[dict[str, Any]]], None] | None = None,
    ) -> None:
        self._id = id
        self._tools = tools
        self._keep = keep
        self._document = document
        self._conversation = conversation
        self._number = 0
        self._silent = False
        self._items: list[Message | FunctionCall] = []
        self._message: Message | None = None
        self._text: Message | None = None
        """The open message or reasoning item."""
        self._calls: dict[int, FunctionCall] = {}

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        message = self._message
        if message is None or reader.logprobs or reader.tool_calls or reader.reasoning:
            return self._start_events() + self._detailed_events(text, reader)
        if not text:
            return b""
        message.pieces.append(text)
        number = self._number
        self._number = number + 1
        return b'%b%b,"sequence_number":%d}\n\n' % (message.before, orjson.dumps(text), number)

    def last(self, index: int, text: str, reader: TextReader) -> bytes:
        events = [self.piece(index, text, reader)]
        if not self._items:
            events.append(self._begin(Message(self._id, 0)))
        status, final = _status(reader), self._items[-1]
        events += [
            self._end_item(item, status if item is final else COMPLETED)
            for item in self._items
            if not item.done
        ]
        return b"".join(events)

    def closing(self, readers: Sequence[TextReader]) -> bytes:
        output = [item.done or item.item(INCOMPLETE) for item in self._items]
        return self._event(f"response.{_status(readers[0])}", {"response": self._ending(readers, output)})

    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        self._silent = True  # the result of a stream, without its events
        self.last(0, texts[0], readers[0])
        return orjson.dumps(self._ending(readers, [item.done or {} for item in self._items]))

    def failure(self, error: InferstreamError) -> bytes:
        """Return `response.failed`, and `error` for OpenAI clients, which raise only for the latter."""
        fault = error_object(error)["error"]
        code = EXCEEDED if read_overflow(error) else FAILURES.get(error.code, "server_error")
        failed = {"code": code, "message": error.message}
        output = [item.done or item.item(INCOMPLETE) for item in self._items]
        response = {**self._document, "status": "failed", "error": failed, "output": output}
        return (
            self._start_events()
            + self._event("response.failed", {"response": response})
            + self._event("error", {**fault, "error": fault})
        )

    def _event(self, kind: str, fields: dict[str, Any]) -> bytes:
        if self._silent:
            return b""
        document = {**fields, "type": kind, "sequence_number": self._number}
        self._number += 1
        return sse.named_event(kind, orjson.dumps(document))

    def _start_events(self) -> bytes:
        """Return the first events of a stream, once."""
        if self._number:
            return b""
        response = {"response": self._document}
        return self._event("response.created", response) + self._event("response.in_progress", response)

    def _detailed_events(self, text: str, reader: TextReader) -> bytes:
        """Return the events of a piece that opens an item or has more than text."""
        events = []
        if thought := reader.reasoning:
            reader.reasoning = ""
            if not text:
                reader.logprobs.clear()
            if not isinstance(reasoning := self._text, Reasoning):
                summary = bool(self._document["reasoning"]["summary"])
                reasoning = Reasoning(self._id, len(self._items), summary)
                events.append(self._begin(reasoning))
            reasoning.pieces.append(thought)
            events.append(self._event(f"{reasoning.text}.delta", {**reasoning.place, "delta": thought}))
        if text or (reader.logprobs and self._message is not None):
            if (message := self._message) is None:
                message = Message(self._id, len(self._items))
                events.append(self._begin(message))
            message.pieces.append(text)
            logprobs = take_logprobs(reader)
            message.logprobs += logprobs
            delta = {**message.place, "delta": text, "logprobs": logprobs}
            events.append(self._event(f"{message.text}.delta", delta))
        if reader.tool_calls:
            events += [self._close(), *(self._call_events(call) for call in reader.tool_calls)]
            reader.tool_calls.clear()
        return b"".join(events)

    def _begin(self, item: Message) -> bytes:
        """Return the events that close the open item and start another."""
        closed, self._text = self._close(), item
        self._message = None if isinstance(item, Reasoning) else item
        part = {**item.place, "part": item.part("")}
        return closed + self._start_item(item) + self._event(f"{item.around}.added", part)

    def _close(self) -> bytes:
        item, self._text, self._message = self._text, None, None
        return b"" if item is None else self._end_item(item, COMPLETED)

    def _start_item(self, item: Message | FunctionCall) -> bytes:
        self._items.append(item)
        added = {"output_index": item.index, "item": item.item("in_progress")}
        return self._event("response.output_item.added", added)

    def _call_events(self, piece: dict[str, Any]) -> bytes:
        """Return the events for a delta of a call. Deltas with the same index belong to one call."""
        call, opened = self._calls.get(piece["index"]), b""
        if call is None:
            call = FunctionCall(self._id, len(self._items), piece, self._tools)
            self._calls[piece["index"]] = call
            opened = self._start_item(call)
        if not (arguments := piece["function"]["arguments"]):
            return opened
        call.pieces.append(arguments)
        if call.tool.custom:  # the text is known when the arguments are complete
            return opened
        delta = {**call.place, "delta": arguments}
        return opened + self._event("response.function_call_arguments.delta", delta)

    def _end_item(self, item: Message | FunctionCall, status: str) -> bytes:
        item.done = item.item(status)
        text = "".join(item.pieces)
        if isinstance(item, Message):
            logprobs = {} if isinstance(item, Reasoning) else {"logprobs": item.logprobs}
            events = self._event(f"{item.text}.done", {**item.place, "text": text, **logprobs})
            events += self._event(f"{item.around}.done", {**item.place, "part": item.part(text)})
        elif item.tool.custom:
            said = item.input_so_far()
            kind = "response.custom_tool_call_input"
            events = self._event(f"{kind}.delta", {**item.place, "delta": said["input"]})
            events += self._event(f"{kind}.done", {**item.place, **said})
        else:
            done = {**item.place, "name": item.tool.name, "arguments": text}
            events = self._event("response.function_call_arguments.done", done)
        return events + self._event(
            "response.output_item.done", {"output_index": item.index, "item": item.done}
        )

    def _ending(self, readers: Sequence[TextReader], output: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the final response."""
        reader, status = readers[0], _status(readers[0])
        used = count_usage(readers)
        if self._keep is not None:
            self._keep(output)
        if self._conversation is not None:
            kept = self._conversation.seal(self._id, output)
            self._document["id"], self._document["store"] = kept
        return {
            **self._document,
            "status": status,
            "completed_at": int(time()) if status == COMPLETED else None,
            "incomplete_details": None if status == COMPLETED else {"reason": CUT[str(reader.finish_reason)]},
            "output": output,
            "usage": {
                "input_tokens": used["prompt_tokens"],
                "input_tokens_details": {
                    "cached_tokens": 0,
                    "cache_write_tokens": 0,
                    **used.get("prompt_tokens_details", {}),
                },
                "output_tokens": used["completion_tokens"],
                "output_tokens_details": used.get("completion_tokens_details", {"reasoning_tokens": 0}),
                "total_tokens": used["total_tokens"],
            },
        }


def _status(reader: TextReader) -> str:
    return INCOMPLETE if reader.finish_reason in CUT else COMPLETED
