"""Responses as OpenAI writes them: whole, or as events."""

from collections.abc import Callable, Sequence
from time import time
from typing import Any

import orjson

from inferstream.ext import sse

from .....errors import Code, InferstreamError
from .....text.chat import NONE
from .....text.context_length import EXCEEDED, read_overflow
from .....text.reader import LENGTH, TextReader
from ..text import TextFormat, token_logprobs
from .chunks import usage_of
from .errors import error_object
from .response_items import Names, Tool, free_text
from .states import SealedConversation

COMPLETED = "completed"
INCOMPLETE = "incomplete"

CUT = {LENGTH: "max_output_tokens", "content_filter": "content_filter"}
"""Reasons to end a text before its end, as a response calls them."""

FAILURES = {
    Code.INVALID: "invalid_prompt",
    Code.OVERLOADED: "rate_limit_exceeded",
    Code.LIMIT_EXCEEDED: "rate_limit_exceeded",
}
"""Codes of failed responses; all others are `server_error`."""


class Message:
    """A text in the output of a response. `text` and `around` are how the events of the text and its part begin."""

    text, around = "response.output_text", "response.content_part"

    def __init__(self, id: str, index: int) -> None:
        self.id = f"msg_{id}_{index}"
        self.index = index
        self.place = {"item_id": self.id, "output_index": index, "content_index": 0}
        self.pieces: list[str] = []
        self.logprobs: list[dict[str, Any]] = []
        self.done: dict[str, Any] | None = None
        """The item once it has ended."""
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
    """What the model thinks, in the output of a response: a summary for clients that ask for one, as few read more."""

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
    """A call of a tool in the output of a response, under the name that the client knows."""

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
        return {**named, "name": self.tool.name, **self.said()}

    def said(self) -> dict[str, str]:
        """What the model has written for the tool so far."""
        text = "".join(self.pieces)
        return {"input": free_text(text)} if self.tool.custom else {"arguments": text}


class ResponseFormat(TextFormat):
    """Writes a text as a response. Only the text and a number differ between the events of most pieces.

    A message ends where a call of a tool begins. Pieces of several calls may be mixed, so that calls end with the
    response. `document` is the response as far as the request determines it. The id that holds a
    `conversation` is known at its end alone.
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
        """The message or the reasoning that is open."""
        self._calls: dict[int, FunctionCall] = {}

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        message = self._message
        if message is None or reader.logprobs or reader.tool_calls or reader.reasoning:
            return self._begun() + self._grown(text, reader)
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
            self._ended(item, status if item is final else COMPLETED) for item in self._items if not item.done
        ]
        return b"".join(events)

    def closing(self, readers: Sequence[TextReader]) -> bytes:
        output = [item.done or item.item(INCOMPLETE) for item in self._items]
        return self._event(f"response.{_status(readers[0])}", {"response": self._ending(readers, output)})

    def whole(self, texts: Sequence[str], readers: Sequence[TextReader]) -> bytes:
        self._silent = True  # what a stream adds up to
        self.last(0, texts[0], readers[0])
        return orjson.dumps(self._ending(readers, [item.done or {} for item in self._items]))

    def failure(self, error: InferstreamError) -> bytes:
        """`response.failed`, and `error`: clients of OpenAI raise for the second only."""
        fault = error_object(error)["error"]
        code = EXCEEDED if read_overflow(error) else FAILURES.get(error.code, "server_error")
        failed = {"code": code, "message": error.message}
        output = [item.done or item.item(INCOMPLETE) for item in self._items]
        response = {**self._document, "status": "failed", "error": failed, "output": output}
        return (
            self._begun()
            + self._event("response.failed", {"response": response})
            + self._event("error", {**fault, "error": fault})
        )

    def _event(self, kind: str, fields: dict[str, Any]) -> bytes:
        if self._silent:
            return b""
        document = {**fields, "type": kind, "sequence_number": self._number}
        self._number += 1
        return sse.named_event(kind, orjson.dumps(document))

    def _begun(self) -> bytes:
        """The events of the beginning, once."""
        if self._number:
            return b""
        response = {"response": self._document}
        return self._event("response.created", response) + self._event("response.in_progress", response)

    def _grown(self, text: str, reader: TextReader) -> bytes:
        """The events of a piece that is more than a text, or opens its message."""
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
            logprobs = token_logprobs(reader)
            message.logprobs += logprobs
            delta = {**message.place, "delta": text, "logprobs": logprobs}
            events.append(self._event(f"{message.text}.delta", delta))
        if reader.tool_calls:
            events += [self._close(), *(self._called(call) for call in reader.tool_calls)]
            reader.tool_calls.clear()
        return b"".join(events)

    def _begin(self, item: Message) -> bytes:
        """The events that end the open text or reasoning, and begin another."""
        closed, self._text = self._close(), item
        self._message = None if isinstance(item, Reasoning) else item
        part = {**item.place, "part": item.part("")}
        return closed + self._opened(item) + self._event(f"{item.around}.added", part)

    def _close(self) -> bytes:
        item, self._text, self._message = self._text, None, None
        return b"" if item is None else self._ended(item, COMPLETED)

    def _opened(self, item: Message | FunctionCall) -> bytes:
        self._items.append(item)
        added = {"output_index": item.index, "item": item.item("in_progress")}
        return self._event("response.output_item.added", added)

    def _called(self, piece: dict[str, Any]) -> bytes:
        """The events of a piece of a call; pieces of one index belong together."""
        call, opened = self._calls.get(piece["index"]), b""
        if call is None:
            call = FunctionCall(self._id, len(self._items), piece, self._tools)
            self._calls[piece["index"]] = call
            opened = self._opened(call)
        if not (arguments := piece["function"]["arguments"]):
            return opened
        call.pieces.append(arguments)
        if call.tool.custom:  # its text is known once the argument has ended
            return opened
        delta = {**call.place, "delta": arguments}
        return opened + self._event("response.function_call_arguments.delta", delta)

    def _ended(self, item: Message | FunctionCall, status: str) -> bytes:
        item.done = item.item(status)
        text = "".join(item.pieces)
        if isinstance(item, Message):
            logprobs = {} if isinstance(item, Reasoning) else {"logprobs": item.logprobs}
            events = self._event(f"{item.text}.done", {**item.place, "text": text, **logprobs})
            events += self._event(f"{item.around}.done", {**item.place, "part": item.part(text)})
        elif item.tool.custom:
            said = item.said()
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
        """The response at its end."""
        reader, status = readers[0], _status(readers[0])
        used = usage_of(readers)
        if self._keep is not None:
            self._keep(output)
        if self._conversation is not None:
            kept = self._conversation.ended(self._id, output)
            self._document["id"], self._document["store"] = kept
        return {
            **self._document,
            "status": status,
            "completed_at": int(time()) if status == COMPLETED else None,
            "incomplete_details": None if status == COMPLETED else {"reason": CUT[str(reader.finish_reason)]},
            "output": output,
            "usage": {
                "input_tokens": used["prompt_tokens"],
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": used["completion_tokens"],
                "output_tokens_details": used.get("completion_tokens_details", {"reasoning_tokens": 0}),
                "total_tokens": used["total_tokens"],
            },
        }


def _status(reader: TextReader) -> str:
    return INCOMPLETE if reader.finish_reason in CUT else COMPLETED
