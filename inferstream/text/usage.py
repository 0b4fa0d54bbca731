"""The use of tokens, as the first and the last response of a text say it."""

from typing import Any, NamedTuple

from ..types import Parameters


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
