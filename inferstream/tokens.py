"""Tokens of texts: what a model may yield beside tensors, and the counts that its responses report."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from .types import Parameters


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


class ToldUsage(NamedTuple):
    """Tokens read and written, and why the text ended; None for what the model does not tell."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None


UNKNOWN = ToldUsage()


def usage_of(parameters: Parameters | None, first: Parameters | None = None) -> ToldUsage:
    """What the parameters of the last response tell. Others are ignored.

    Those of the `first` one count the prompt of a text that its model did not end.
    """
    said = None if parameters is None else parameters.__pydantic_extra__
    if first is not None and not (said and "prompt_tokens" in said):
        prompt_tokens = usage_of(first).prompt_tokens
        return usage_of(parameters)._replace(prompt_tokens=prompt_tokens)
    if not said:
        return UNKNOWN
    reason = said.get("finish_reason")
    return ToldUsage(
        _count(said.get("prompt_tokens")),
        _count(said.get("completion_tokens")),
        None if reason is None else str(reason),
    )


def tokens_of(last: Parameters | None, items: int, first: Parameters | None = None) -> int:
    """Tokens of a call by the parameters of its responses: those of the prompt, and of the text or its items."""
    if last is None and first is None:
        return items
    usage = usage_of(last, first)
    return (usage.prompt_tokens or 0) + (
        items if usage.completion_tokens is None else usage.completion_tokens
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
