"""The use of tokens, as the last response of a text says it."""

from typing import Any, NamedTuple

from ..types import Parameters


class ToldUsage(NamedTuple):
    """Tokens read and written, and why the text ended; None for what the model does not tell."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None


UNKNOWN = ToldUsage()


def usage_of(parameters: Parameters | None) -> ToldUsage:
    """What the parameters of a response tell. Others are ignored."""
    said = None if parameters is None else parameters.__pydantic_extra__
    if not said:
        return UNKNOWN
    reason = said.get("finish_reason")
    return ToldUsage(
        _count(said.get("prompt_tokens")),
        _count(said.get("completion_tokens")),
        None if reason is None else str(reason),
    )


def tokens_of(last: Parameters | None, items: int) -> int:
    """Tokens of a call by the parameters of its last response: those of the prompt, and of the text or its items."""
    if last is None:
        return items
    usage = usage_of(last)
    return (usage.prompt_tokens or 0) + (
        items if usage.completion_tokens is None else usage.completion_tokens
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
