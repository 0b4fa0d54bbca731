"""`/v1/chat/completions`."""

from typing import Any

from inferstream.ext.calls import Admission

from ..chat import OPTIONS, read_messages
from ..fields import Fields
from ..reader import STOP, TextReader
from ..text_dialect import TextRequest, ensure_id, require_text_interface, take_logprobs
from ..tools import read_tools
from .chunks import GENERAL, MAX_CHOICES, ChunkFormat, read_generation, read_streaming

KNOWN = GENERAL.union(
    ("messages", "top_logprobs", "tools", "tool_choice", "parallel_tool_calls", "modalities"),
    OPTIONS,
)
"""Fields that never become parameters of the model request."""


class ChatFormat(ChunkFormat):
    """Writes completions as assistant messages. The first chunk of each has the role."""

    prefix = "chatcmpl-"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def __init__(self, id: str, model: str, choices: int, usage: bool) -> None:
        super().__init__(id, model, choices, usage)
        self._unbegun = set(range(choices))
        self._with_tools: set[int] = set()

    def piece(self, index: int, text: str, reader: TextReader) -> bytes:
        piece = super().piece(index, text, reader)
        if not self._unbegun or index not in self._unbegun:
            return piece
        self._unbegun.discard(index)
        delta = {"role": "assistant", "content": ""}
        first = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        return self.chunk([first]) + piece

    def choice(self, index: int, text: str, reader: TextReader, finish_reason: str | None) -> dict[str, Any]:
        delta: dict[str, Any] = {"content": text} if text else {}
        if reader.reasoning:
            delta["reasoning_content"], reader.reasoning = reader.reasoning, ""
        if reader.tool_calls:
            delta["tool_calls"] = [*reader.tool_calls]
            reader.tool_calls.clear()
            self._with_tools.add(index)
        if finish_reason == STOP and index in self._with_tools:
            finish_reason = "tool_calls"
        logprobs = _logprobs(reader)
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}

    def whole_choice(self, index: int, text: str, reader: TextReader) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if reader.reasoning:
            message["reasoning_content"] = reader.reasoning
        reason = reader.finish_reason
        if reader.tool_calls:
            for call in reader.tool_calls:
                del call["index"]
            message |= {"content": text or None, "tool_calls": reader.tool_calls}
            reason = "tool_calls" if reason == STOP else reason
        return {"index": index, "message": message, "logprobs": _logprobs(reader), "finish_reason": reason}


def _logprobs(reader: TextReader) -> dict[str, Any] | None:
    """Return the log probabilities read so far, and clear the reader's list."""
    return {"content": take_logprobs(reader), "refusal": None} if reader.logprobs else None


def _requested_logprobs(fields: Fields) -> int | None:
    """Return the number of top log probabilities per token, or None if none are requested."""
    wanted, top = fields.flag("logprobs"), fields.integer("top_logprobs", 0, 20)
    if top and not wanted:
        raise fields.wrong("top_logprobs", "needs logprobs to be true")
    return (top or 0) if wanted else None


def read_chat(fields: Fields, admission: Admission, name: str) -> TextRequest:
    """Parse a request. Raises InvalidRequest naming the invalid field."""
    interface = require_text_interface(admission, name)
    chat = read_messages(fields)
    inputs: dict[str, Any] = {**chat.inputs(interface.takes)}
    tool_inputs, parameters = read_tools(fields, interface)
    inputs |= tool_inputs
    if fields.items("modalities") not in (None, [], ["text"]):
        raise fields.wrong("modalities", "must be text; the model writes nothing else")
    generation = read_generation(fields, interface, parameters, _requested_logprobs(fields), KNOWN)
    generation.enable_parsing(interface, chat, inputs, thoughts=chat.shows_thoughts)
    prompt = interface.render_chat(chat, inputs)
    count = fields.integer("n", 1, MAX_CHOICES) or 1
    requests = [generation.build_request(interface, prompt, inputs, index) for index in range(count)]
    streamed, usage = read_streaming(fields)
    format = ChatFormat(ensure_id(requests), name, count, usage)
    return TextRequest(admission, generation, requests, format, streamed)
