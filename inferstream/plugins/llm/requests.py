"""Reads the requests of a language model that has a tokenizer: prompt tokens, sampling and output format."""

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import Any

from inferstream.ext.values import Description
from inferstream.plugins.text.calls.formats import PARSERS, has_special_tokens
from inferstream.plugins.text.context_length import ARCHITECTURE, CONTEXT_LENGTH, report_overflow
from inferstream.plugins.text.detokenizer import Detokenizer
from inferstream.plugins.text.fields import field_error
from inferstream.plugins.text.inputs import MESSAGES, RESPONSE_FORMAT, TOKEN_IDS, TOOLS, field_name
from inferstream.plugins.text.prompt_inputs import read_strings, take_options
from inferstream.types import InferenceRequest, MetadataTensor

from .grammars.beginnings import Beginning, Beginnings
from .prompts import PromptReader
from .sampling import WRITTEN, Sampling, read_sampling, read_tokens

CONTEXT = 5
"""Number of prompt tokens that are decoded together with the first token."""


@dataclass(slots=True)
class ReadRequest:
    """The prompt and options of one request."""

    prompt: list[int]
    sampling: Sampling
    beginning: Beginning
    opening: str
    """End of the prompt that belongs to the output."""
    limit: int
    """Maximum number of tokens of prompt and output together."""
    skips_special: bool
    """Whether special tokens are left out of the text."""
    written: list[int] = field(default_factory=list)
    """Tokens of the output that already exist."""

    def create_detokenizer(self, decode: Callable[..., str]) -> Detokenizer:
        """Create a detokenizer. `decode` takes token IDs, and whether to skip special tokens."""
        return Detokenizer(partial(decode, skip=self.skips_special), self.prompt[-CONTEXT:])


@dataclass(slots=True)
class GenerationReader:
    """Reads requests for one model."""

    prompts: PromptReader
    calls: str | None
    """Tool call format."""
    has_grammars: InitVar[bool]
    vocabulary: int
    """Number of tokens in the vocabulary."""
    context: int
    """Maximum number of tokens of prompt and output together."""
    sampling: Sampling
    """Default sampling parameters."""
    max_tokens: int | None
    """Maximum number of output tokens of requests without a limit. If None: the rest of the context."""
    _beginnings: Beginnings = field(init=False)

    def __post_init__(self, has_grammars: bool) -> None:
        self._beginnings = Beginnings(self.calls, has_grammars)

    def inputs(self) -> list[MetadataTensor]:
        """Return the inputs of the model."""
        return self.prompts.inputs(tools=self.calls in PARSERS)

    def describe(self, architecture: str) -> Description:
        """Return the description of the model for its metadata."""
        facts: dict[str, str | int] = {CONTEXT_LENGTH: self.context, ARCHITECTURE: architecture}
        return Description(parameters=facts, formats=(self.calls, self.prompts.reasoning))

    def read(self, request: InferenceRequest, single: bool) -> ReadRequest:
        """Read a request. `single`: whether the client accepts only one response. Raises InvalidRequest."""
        parameters = request.parameters
        given: dict[str, Any] = dict(parameters.items()) if parameters is not None else {}
        sampling = read_sampling(given, self.sampling, self.vocabulary)
        if single and (sampling.logprobs or sampling.prompt_logprobs is not None):
            raise field_error("logprobs", "logprobs come with a stream only")
        texts = read_strings(request)
        tools, form, chat = texts.get(TOOLS), texts.pop(RESPONSE_FORMAT, None), MESSAGES in texts
        name, options = field_name(request.inputs, RESPONSE_FORMAT), take_options(texts)
        beginning = self._beginnings.of(given.get("tool_choice"), tools, form, chat, name)
        if beginning.form is not None and sampling.min_tokens:
            raise field_error(
                "min_tokens", f"min_tokens is not taken with {beginning.name}, which ends the text"
            )
        size = self.vocabulary if given.get(TOKEN_IDS) else 0
        prompt, name, opening = self.prompts.read(texts, options, beginning.opening, size)
        prompt = prompt[-(sampling.truncate_prompt_tokens or 0) :]
        if len(prompt) >= self.context:
            raise report_overflow(name, len(prompt), self.context)
        most = sampling.max_tokens or self.max_tokens or self.context
        # Some models use special tokens around calls.
        marked = has_special_tokens(self.calls, self.prompts.reasoning, tools is not None, chat)
        skips = sampling.skip_special_tokens and not marked
        limit = min(len(prompt) + most, self.context)
        written = given.get(WRITTEN)
        tokens = [] if written is None else self._read_written(written, limit - len(prompt), single)
        return ReadRequest(prompt, sampling, beginning, opening, limit, skips, tokens)

    def _read_written(self, value: object, room: int, single: bool) -> list[int]:
        """Return the tokens of the output that exist. `room` is the maximum length of the output."""
        if single:
            raise field_error(WRITTEN, f"{WRITTEN} is taken for a stream only")
        tokens = read_tokens(WRITTEN, value, self.vocabulary, self.context)
        if len(tokens) >= room:
            raise field_error(WRITTEN, f"{WRITTEN} leaves no room for more tokens")
        return tokens
