"""`Generation`: the options of a request for text, independent of the client's API."""

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from inferstream.types import InferenceRequest, TensorData

from .calls.reader import CallReader
from .chat import Chat, has_closed_reasoning
from .fields import MAX_INTEGER, Fields, wrong_field
from .inputs import TOKEN_IDS, TOOLS
from .interface import TextInterface
from .reader import TextReader

RESERVED = frozenset(("content_type", "headers", "priority", "timeout"))
"""Request parameters that the server interprets itself."""

SEEDS = 2**63
"""Exclusive bound of seeds, because a seed and its successors must fit into 64 bits."""


class PendingPrompt(NamedTuple):
    """A prompt that a thread or a process is rendering, and the requests that wait for it."""

    prompt: "Future[str]"
    requests: list[InferenceRequest]

    async def write(self) -> None:
        """Wait for the prompt and set it in the requests. Raises InvalidRequest or ModelError."""
        prompt = await asyncio.wrap_future(self.prompt)
        for request in self.requests:
            request.inputs[0].data = TensorData([prompt])


@dataclass(slots=True, eq=False)
class Generation:
    """Options for generated text: the stop conditions and the model's parameters."""

    parameters: dict[str, Any]
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    logprobs: bool = False
    pending: PendingPrompt | None = field(default=None, init=False)
    """The prompt of the requests while it is being rendered."""
    _interface: TextInterface | None = field(default=None, init=False)
    _tools: list[Any] | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)
    _thoughts: bool = field(default=False, init=False)
    _request: InferenceRequest | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            self.parameters["max_tokens"] = self.max_tokens
        if self.logprobs:
            self.parameters["logprobs"] = True

    def create_reader(self) -> TextReader:
        """Create a reader for the responses to one request."""
        interface, request = self._interface, self._request
        parser = (
            None
            if interface is None or request is None
            else interface.create_parser(self._tools, request, self._closed)
        )
        if parser is None:
            reader = TextReader(self.stop, self.max_tokens, self.logprobs)
        else:
            parallel = self.parameters.get("parallel_tool_calls", True)
            reader = CallReader(parser, parallel, self._thoughts, self.stop, self.max_tokens, self.logprobs)
            reader.reasoning_tokens = 0 if interface is not None and interface.thinks else None
        least = self.parameters.get("min_tokens")
        reader.least_tokens = least if type(least) is int else 0  # the model rejects any other value
        return reader

    def enable_parsing(
        self,
        interface: TextInterface,
        chat: Chat,
        inputs: Mapping[str, Sequence[str | bytes]],
        thoughts: bool = False,
    ) -> None:
        """Make readers extract reasoning, and tool calls if the inputs have tools, from the text.

        `thoughts` determines whether the client receives the reasoning.
        """
        self._thoughts = thoughts
        self._interface = interface
        self._tools = orjson.loads(inputs[TOOLS][0]) if TOOLS in inputs else None
        self._closed = has_closed_reasoning(chat.options)

    def build_request(
        self,
        interface: TextInterface,
        prompt: "str | Future[str] | None",
        inputs: Mapping[str, Sequence[str | bytes]],
        index: int = 0,
    ) -> InferenceRequest:
        """Build the request for completion number `index`. Its seed is the requested seed plus `index`."""
        parameters = self.parameters
        if index and (seed := parameters.get("seed")) is not None:
            parameters = {**parameters, "seed": (seed + index) % SEEDS}
        text = "" if isinstance(prompt, Future) else prompt
        request = self._request = interface.build_request(
            None if text is None else [text], inputs, parameters
        )
        if isinstance(prompt, Future):
            self.pending = self.pending or PendingPrompt(prompt, [])
            self.pending.requests.append(request)
        return request


def read_sampling(fields: Fields, known: frozenset[str]) -> dict[str, Any]:
    """Return validated sampling parameters, and all other fields, as parameters for the model.

    `known` are the fields that the dialect reads itself. Raises InvalidRequest naming the invalid field.
    """
    parameters = fields.other_parameters(known | RESERVED)
    for name in ("logprobs", "top_logprobs", "prompt_logprobs"):
        if name in parameters:
            raise fields.wrong(name, "is not taken here; the answer has no place for it")
    checked = {
        "temperature": fields.number("temperature", 0, 2),
        "top_p": fields.number("top_p", 0, 1),
        "presence_penalty": fields.number("presence_penalty", -2, 2),
        "frequency_penalty": fields.number("frequency_penalty", -2, 2),
        "seed": fields.integer("seed", -SEEDS, SEEDS - 1),
    }
    parameters.update((name, value) for name, value in checked.items() if value is not None)
    return parameters


def read_texts(
    fields: Fields, name: str, interface: TextInterface, most: int = MAX_INTEGER
) -> tuple[list[str], dict[str, Any]]:
    """Return the strings of a field, or token ID lists as JSON with the parameter `token_ids`."""
    value = fields.get(name)
    lists = [value] if isinstance(value, list) and value and type(value[0]) is int else value
    if not interface.token_ids or not (isinstance(lists, list) and any(type(each) is list for each in lists)):
        return fields.require_texts(name, most), {}
    if len(lists) > most:
        raise fields.wrong(name, f"holds {len(lists)} lists, at most {most} are allowed")
    return [orjson.dumps(each).decode() for each in lists], {TOKEN_IDS: True}


def expect_logprobs(interface: TextInterface, name: str) -> None:
    """Raise InvalidRequest naming the field unless the model returns log probabilities."""
    if not interface.logprobs:
        raise wrong_field(name, "the model gives no log probabilities")
