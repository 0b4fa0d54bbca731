"""`Token` and `Usage`: what a model of text may yield beside tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any


@dataclass(slots=True, eq=False)
class Usage:
    """How many tokens a model has read and written for one request; None before the end of the text."""

    prompt_tokens: int
    completion_tokens: int | None = None


@dataclass(slots=True, eq=False)
class Token:
    """A piece of a text, from `predict_stream`, `predict` or a step of a `StepModel`.

    A plain `str` or `bytes` does where there is nothing to say beside the text. Bytes may end within a character.
    Clients of V2 get a BYTES tensor with the text, and everything else as parameters of the response.

    - `id`: number of the token in the vocabulary. `logprob`: natural logarithm of its probability.
    - `top_logprobs`: texts and log probabilities of the most likely tokens at its place.
    - `spelling`: the token as `spelling.spell` writes its bytes, if it is not its text: a part of a character.
    - `prompt_logprobs`: the spelling of each token of the prompt, its log probability and those of the most likely
      tokens, on the first token, for a request with the parameter `prompt_logprobs`.
    - `finish_reason`: why the text ends with this token: `stop`, `length`, `tool_calls` or `content_filter`.
    - `usage`: counts of the tokenizer, on the last token. The server counts items where no token has them. Give
      `Usage(prompt_tokens)` on the first token too, for texts that end with a stop string of the client.
    - `tool_calls`: whole tool calls, or pieces of them as in the `delta` of an OpenAI chunk: dicts or objects.
    """

    text: str | bytes = ""
    id: int | None = None
    logprob: float | None = None
    _: KW_ONLY
    top_logprobs: Mapping[str, float] | None = None
    spelling: str | None = None
    prompt_logprobs: Sequence[tuple[str, float | None, Mapping[str, float]]] | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    tool_calls: Sequence[Any] | None = None
