"""OpenTelemetry's attributes of generative models, for the spans of calls."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...telemetry.tokens import PROVIDER
from ...text.inputs import MESSAGES
from ...text.interface import TextInterface
from ...text.usage import usage_of
from ...types import InferenceRequest, InferenceResponse, Parameters
from ..call import Call, Operation
from ..reply import Watcher

Values = dict[str, str | int | float | Sequence[str]]

REQUESTED: Mapping[str, tuple[str, type[int] | type[float]]] = {
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "top_k": ("gen_ai.request.top_k", int),
    "seed": ("gen_ai.request.seed", int),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
}
"""Parameters of requests: the attribute of each, and its type."""


def operation_of(text: TextInterface | None) -> str | None:
    """The value of `gen_ai.operation.name`; None for a model that is not known to be one of texts."""
    if text is None or not text.listed:
        return None
    if text.embeds:
        return "embeddings"
    if not text.generates:
        return None
    return "chat" if text.takes(MESSAGES) else "text_completion"


class GenAi:
    """The attributes of one model's calls."""

    def __init__(self, model: str, operation: str) -> None:
        self._fixed: Values = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": model,
            "gen_ai.response.model": model,
        }

    def asked(self, call: Call) -> Values:
        """What is known when a call begins."""
        found: Values = {**self._fixed, "gen_ai.request.stream": call.operation is Operation.STREAM}
        for name, value in _parameters(call.request).items():
            attribute, kind = REQUESTED[name]
            if isinstance(value, int | float):
                found[attribute] = kind(value)
        return found


def responded(last: Parameters | None, items: int | None) -> Values:
    """What the parameters of the last response of a call tell. `items` is the number of responses of a stream."""
    usage = usage_of(last)
    found: Values = {}
    if usage.prompt_tokens is not None:
        found["gen_ai.usage.input_tokens"] = usage.prompt_tokens
    written = items if usage.completion_tokens is None else usage.completion_tokens
    if written is not None:
        found["gen_ai.usage.output_tokens"] = written
    if usage.finish_reason is not None:
        found["gen_ai.response.finish_reasons"] = [usage.finish_reason]
    return found


def _parameters(request: InferenceRequest) -> dict[str, Any]:
    """The sampling parameters of a request, which are parameters or inputs of one value."""
    said = None if request.parameters is None else request.parameters.__pydantic_extra__
    found = {name: value for name, value in (said or {}).items() if name in REQUESTED}
    for tensor in request.inputs:
        if tensor.name in REQUESTED:
            values = tensor.data.flat()
            if len(values) == 1:
                found[tensor.name] = values[0]
    return found


class LastParameters(Watcher):
    """Keeps the parameters of the last response of a stream, and counts all responses."""

    __slots__ = ("items", "parameters")

    def __init__(self) -> None:
        self.parameters: Parameters | None = None
        self.items = 0

    def item(self, response: InferenceResponse) -> None:
        self.parameters = response.parameters
        self.items += 1
