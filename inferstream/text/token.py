"""`Token` and `Usage`: what a model of text may yield beside tensors."""

from collections.abc import Mapping, Sequence
from typing import Any


class Usage:
    """How many tokens a model has read and written for one request."""

    __slots__ = ("completion_tokens", "prompt_tokens")

    def __init__(self, prompt_tokens: int, completion_tokens: int) -> None:
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens


class Token:
    """A piece of a text, from `predict_stream`, `predict` or a step of a `StepModel`.

    A plain `str` or `bytes` does where there is nothing to say beside the text. Bytes may end within a character.
    Clients of V2 get a BYTES tensor with the text, and everything else as parameters of the response.

    - `id`: number of the token in the vocabulary. `logprob`: natural logarithm of its probability.
    - `top_logprobs`: texts and log probabilities of the most likely tokens at its place.
    - `finish_reason`: why the text ends with this token: `stop`, `length`, `tool_calls` or `content_filter`.
    - `usage`: counts of the tokenizer, on the last token. The server counts items where no token has them.
    - `tool_calls`: pieces of tool calls, as in the `delta` of an OpenAI chunk.
    """

    __slots__ = ("finish_reason", "id", "logprob", "text", "tool_calls", "top_logprobs", "usage")

    def __init__(
        self,
        text: str | bytes = "",
        id: int | None = None,
        logprob: float | None = None,
        *,
        top_logprobs: Mapping[str, float] | None = None,
        finish_reason: str | None = None,
        usage: Usage | None = None,
        tool_calls: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.text = text
        self.id = id
        self.logprob = logprob
        self.top_logprobs = top_logprobs
        self.finish_reason = finish_reason
        self.usage = usage
        self.tool_calls = tool_calls
