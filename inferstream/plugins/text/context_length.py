"""Context length of a language model: its metadata key, and the error for a prompt that is too long."""

from inferstream.errors import InferstreamError, InvalidRequest
from inferstream.ext.runtimes import Signature

CONTEXT_LENGTH = "context_length"
"""Metadata parameter of a language model: the maximum number of prompt and output tokens together."""

ARCHITECTURE = "architecture"
"""Metadata parameter of a language model: the architecture from the model file, such as `llama`."""

EXCEEDED = "context_length_exceeded"
"""The error type in `detail`, which is also the OpenAI error code."""


def find_context_length(signature: Signature) -> int | None:
    """Return the context length in tokens, or None if the model does not report it."""
    length = signature.parameters.get(CONTEXT_LENGTH)
    return length if isinstance(length, int) else None


def report_overflow(field: str, tokens: int, limit: int) -> InvalidRequest:
    """Return the error for a prompt in `field`, worded so that OpenAI clients and agents recognise it."""
    message = (
        f"This model's maximum context length is {limit} tokens. However, your {field} resulted in {tokens} "
        f"tokens. Please reduce the length of the {field}."
    )
    context = {"tokens": tokens, "limit": limit}
    return InvalidRequest(message, [{"loc": [field], "msg": message, "type": EXCEEDED, "ctx": context}])


def read_overflow(error: InferstreamError) -> tuple[int, int] | None:
    """Return the token counts of the prompt and the context if this is a context length error, else None."""
    fault = error.detail[0] if isinstance(error, InvalidRequest) and error.detail else {}
    context = fault.get("ctx")
    if fault.get("type") != EXCEEDED or not isinstance(context, dict):
        return None
    return context["tokens"], context["limit"]
