"""The context of a language model: its length in metadata, and the error of a prompt that exceeds it."""

from inferstream.ext.runtimes import Signature

from ..errors import InferstreamError, InvalidRequest

CONTEXT_LENGTH = "context_length"
"""Parameter in the metadata of a language model: the most tokens of a prompt and its text together."""

ARCHITECTURE = "architecture"
"""Parameter in the metadata of a language model: the architecture that its file names, such as `llama`."""

EXCEEDED = "context_length_exceeded"
"""The type of the fault in the `detail` of the error, which is also OpenAI's code for it."""


def context_length_of(signature: Signature) -> int | None:
    """Tokens of the context; None for a model that does not report it."""
    length = signature.parameters.get(CONTEXT_LENGTH)
    return length if isinstance(length, int) else None


def report_overflow(field: str, tokens: int, limit: int) -> InvalidRequest:
    """The error of a prompt in `field`, in the words by which OpenAI clients and agents recognise it."""
    message = (
        f"This model's maximum context length is {limit} tokens. However, your {field} resulted in {tokens} "
        f"tokens. Please reduce the length of the {field}."
    )
    context = {"tokens": tokens, "limit": limit}
    return InvalidRequest(message, [{"loc": [field], "msg": message, "type": EXCEEDED, "ctx": context}])


def read_overflow(error: InferstreamError) -> tuple[int, int] | None:
    """Tokens of the prompt and of the context, if this is the error of a prompt that is too long."""
    fault = error.detail[0] if isinstance(error, InvalidRequest) and error.detail else {}
    context = fault.get("ctx")
    if fault.get("type") != EXCEEDED or not isinstance(context, dict):
        return None
    return context["tokens"], context["limit"]
