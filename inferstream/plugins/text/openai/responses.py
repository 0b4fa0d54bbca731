"""`/v1/responses`: the parsing of its requests."""

from collections.abc import Mapping
from functools import partial
from time import time
from typing import Any, Never

from inferstream.errors import NotFound
from inferstream.ext.calls import Admission

from ..chat import OPTIONS
from ..fields import Fields
from ..generation import Generation, expect_logprobs, read_sampling
from ..interface import TextInterface
from ..response_format import format_inputs
from ..text_dialect import TextRequest, ensure_id, require_text_interface
from ..tools import read_parallel, tool_inputs
from .chunks import UNUSED
from .response_events import ResponseFormat
from .response_items import (
    INPUT,
    PREVIOUS,
    read_choice,
    read_format,
    read_functions,
    read_input,
    read_metadata,
)
from .states import PREFIX, RecentItems, SealedStates

LOGPROBS = "message.output_text.logprobs"

UNSTORED = "responses are not stored"

CONVERSATIONS = "conversations are not stored; send their items as input"

REFUSED: Mapping[str, str] = {
    "conversation": CONVERSATIONS,
    "background": f"{UNSTORED}; the response is made while the client waits",
    "prompt": "prompts are not stored; send the prompt as instructions and input",
    "moderation": "the server does not moderate",
    "max_tokens": "is not a field of responses; use max_output_tokens",
    "max_completion_tokens": "is not a field of responses; use max_output_tokens",
    "response_format": "is not a field of responses; use text.format",
    "n": "is not a field of responses; each has one text",
}
"""Rejected fields, with the reason for each."""

KNOWN = (
    frozenset(("model", INPUT, "instructions", "max_output_tokens", "max_tool_calls", "stream", "stop"))
    | frozenset(("tool_choice", "parallel_tool_calls", "top_logprobs", "truncation", "include"))
    | frozenset((PREVIOUS, *REFUSED, "text", "tools", "stream_options"))
    | OPTIONS
    | UNUSED
)
"""Fields that never become parameters of the model request."""

ECHOED: Mapping[str, float | None] = {
    **dict.fromkeys(("max_output_tokens", "user", "safety_identifier", "prompt_cache_key")),
    **dict.fromkeys(("temperature", "top_p"), 1.0),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), 0.0),
}
"""Response fields copied from the request. The defaults are numbers, as Open Responses clients require."""


def read_response(
    states: SealedStates, recent: RecentItems, most: int, fields: Fields, admission: Admission, name: str
) -> TextRequest:
    """Parse a request. `most` limits the bytes of its stream. Raises InvalidRequest for invalid fields."""
    interface = require_text_interface(admission, name)
    for field, sentence in REFUSED.items():
        if (value := fields.get(field)) is not None and value is not False:
            raise fields.wrong(field, sentence)
    previous = states.open_previous(fields, admission)
    chat = read_input(fields, previous, partial(recent.recall, admission))
    chat.read_options(fields)
    (functions, tools), choice = read_functions(fields), read_choice(fields)
    inputs, parameters = tool_inputs(interface, functions, choice, read_parallel(fields))
    inputs |= format_inputs(read_format(fields), interface, "text.format")
    if (text := fields.object("text")) is not None and (verbosity := text.text("verbosity")) is not None:
        chat.options["verbosity"] = verbosity
    top = _requested_logprobs(fields, interface)
    if top:
        parameters["top_logprobs"] = top
    parameters |= read_sampling(fields, KNOWN)
    limit = fields.integer("max_output_tokens", 1)
    generation = Generation(parameters, fields.stop_strings(), limit, top is not None)
    shown = chat.shows_thoughts and fields.object("reasoning") is not None
    generation.enable_parsing(interface, chat, inputs, thoughts=shown)
    request = generation.build_request(
        interface, interface.render_chat(chat, inputs), {**chat.inputs(interface.takes), **inputs}
    )
    id = ensure_id([request])
    streamed = fields.flag("stream")
    if fields.object("stream_options") is not None and not streamed:
        raise fields.wrong("stream_options", "needs stream to be true")
    conversation = states.seal_conversation(fields, admission, previous)
    keep = None if fields.get("store") is False else partial(recent.add_items, admission)
    format = ResponseFormat(id, _document(fields, id, name), conversation, tools, keep)
    asked = TextRequest(admission, generation, [request], format, streamed)
    asked.limit = most
    return asked


def _requested_logprobs(fields: Fields, interface: TextInterface) -> int | None:
    """Return the number of top log probabilities per token, or None if none are requested."""
    included, top = fields.items("include") or [], fields.integer("top_logprobs", 0, 20)
    if LOGPROBS in included:
        expect_logprobs(interface, "include")
        return top or 0
    if top:
        raise fields.wrong("top_logprobs", f'needs "{LOGPROBS}" in include')
    return None


def _document(fields: Fields, id: str, name: str) -> dict[str, Any]:
    """Return the response properties that the request determines."""
    text, reasoning = fields.object("text"), fields.object("reasoning")
    fields.choice("truncation", ("disabled",))
    format = None if text is None else text.get("format")
    return {
        "id": PREFIX + id,
        "object": "response",
        "created_at": int(time()),
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "instructions": fields.get("instructions"),
        "max_tool_calls": fields.integer("max_tool_calls", 1),
        "metadata": read_metadata(fields),
        "model": name,
        "output": [],
        "parallel_tool_calls": fields.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "reasoning": {name: reasoning and reasoning.get(name) for name in ("effort", "summary")},
        "service_tier": "default",
        "store": False,
        "text": {"format": format or {"type": "text"}},
        "tool_choice": fields.get("tool_choice") or "auto",
        "tools": fields.get("tools") or [],
        "top_logprobs": fields.get("top_logprobs") or 0,
        "truncation": "disabled",
        "usage": None,
        **ECHOED,
        **{field: fields.get(field) for field in fields.names() if field in ECHOED},
    }


async def reject_unstored_response(*_: object) -> Never:
    """Reject a request for an earlier response."""
    raise NotFound(f"There is no such response: {UNSTORED}.")


async def reject_conversation(*_: object) -> Never:
    """Reject a request to create a stored conversation."""
    raise NotFound(f"There is no such route: {CONVERSATIONS}.")
