"""`/v1/responses`: how a request for a response is read."""

from collections.abc import Mapping
from functools import partial
from time import time
from typing import Any, Never

from inferstream.ext.calls import Admission

from .....errors import NotFound
from .....text.chat import OPTIONS
from .....text.fields import Fields
from .....text.generation import Generation, expect_logprobs, sampling
from .....text.interface import TextInterface
from .....text.response_format import formatted
from .....text.tools import offered, read_parallel
from ..text import TextRequest, generating, identified
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
"""Fields that a request must not have, and why."""

KNOWN = (
    frozenset(("model", INPUT, "instructions", "max_output_tokens", "max_tool_calls", "stream", "stop"))
    | frozenset(("tool_choice", "parallel_tool_calls", "top_logprobs", "truncation", "include"))
    | frozenset((PREVIOUS, *REFUSED, "text", "tools", "stream_options"))
    | OPTIONS
    | UNUSED
)
"""Fields that never become parameters of the request to the model."""

ECHOED: Mapping[str, float | None] = {
    **dict.fromkeys(("max_output_tokens", "user", "safety_identifier", "prompt_cache_key")),
    **dict.fromkeys(("temperature", "top_p"), 1.0),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), 0.0),
}
"""Fields of the response that are those of the request, or OpenAI's default: clients of Open Responses need numbers."""


def read_response(
    states: SealedStates, recent: RecentItems, most: int, fields: Fields, admission: Admission, name: str
) -> TextRequest:
    """Read a request, whose stream has at most so many bytes. Raises InvalidRequest that names the wrong field."""
    interface = generating(admission, name)
    for field, sentence in REFUSED.items():
        if (value := fields.get(field)) is not None and value is not False:
            raise fields.wrong(field, sentence)
    previous = states.previous(fields, admission)
    chat = read_input(fields, previous, partial(recent.recall, admission))
    chat.read_options(fields)
    (functions, tools), choice = read_functions(fields), read_choice(fields)
    inputs, parameters = offered(interface, functions, choice, read_parallel(fields))
    inputs |= formatted(read_format(fields), interface, "text.format")
    if (text := fields.object("text")) is not None and (verbosity := text.text("verbosity")) is not None:
        chat.options["verbosity"] = verbosity
    top = _logprobs_asked(fields, interface)
    if top:
        parameters["top_logprobs"] = top
    parameters |= sampling(fields, KNOWN)
    limit = fields.integer("max_output_tokens", 1)
    generation = Generation(parameters, fields.stop(), limit, top is not None)
    shown = chat.shows_thoughts and fields.object("reasoning") is not None
    generation.parse(interface, chat, inputs, thoughts=shown)
    request = generation.request(
        interface, interface.chat_prompt(chat, inputs), {**chat.inputs(interface.takes), **inputs}
    )
    id = identified([request])
    streamed = fields.flag("stream")
    if fields.object("stream_options") is not None and not streamed:
        raise fields.wrong("stream_options", "needs stream to be true")
    conversation = states.kept(fields, admission, previous)
    keep = None if fields.get("store") is False else partial(recent.keep, admission)
    format = ResponseFormat(id, _document(fields, id, name), conversation, tools, keep)
    asked = TextRequest(admission, generation, [request], format, streamed)
    asked.limit = most
    return asked


def _logprobs_asked(fields: Fields, interface: TextInterface) -> int | None:
    """How many of the most likely tokens the client wants at each place; None if no log probabilities."""
    included, top = fields.items("include") or [], fields.integer("top_logprobs", 0, 20)
    if LOGPROBS in included:
        expect_logprobs(interface, "include")
        return top or 0
    if top:
        raise fields.wrong("top_logprobs", f'needs "{LOGPROBS}" in include')
    return None


def _document(fields: Fields, id: str, name: str) -> dict[str, Any]:
    """The response, as far as the request determines it."""
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


async def unstored(*_: object) -> Never:
    """Any request for a response that was made earlier."""
    raise NotFound(f"There is no such response: {UNSTORED}.")


async def no_conversations(*_: object) -> Never:
    """A request to begin a conversation that the server would store."""
    raise NotFound(f"There is no such route: {CONVERSATIONS}.")
