"""`Sampling`: how the next token is chosen, read from the parameters of a request."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InvalidRequest
from ..types import InferenceRequest


@dataclass(frozen=True)
class Sampling:
    """Values of the parameters with these names; the defaults of llama.cpp where a request gives none."""

    max_tokens: int | None = None
    temperature: float = 0.8
    """0 takes the most likely token."""
    top_p: float = 0.95
    top_k: int = 40
    """0 for all tokens."""
    min_p: float = 0.05
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0


class _Rule(NamedTuple):
    kind: type[Any]
    low: float | None = None
    high: float | None = None


RULES = {
    "max_tokens": _Rule(int, 1),
    "temperature": _Rule(float, 0),
    "top_p": _Rule(float, 0, 1),
    "top_k": _Rule(int, 0),
    "min_p": _Rule(float, 0, 1),
    "repetition_penalty": _Rule(float, 0),
    "presence_penalty": _Rule(float, -2, 2),
    "frequency_penalty": _Rule(float, -2, 2),
    "seed": _Rule(int),
    "logprobs": _Rule(bool),
    "top_logprobs": _Rule(int, 0, 20),
}


def sampling_of(request: InferenceRequest) -> Sampling:
    """The sampling that a request asks for. Raises InvalidRequest that names the wrong parameter."""
    parameters = request.parameters
    if parameters is None:
        return Sampling()
    given = {name: value for name in RULES if (value := parameters.get(name)) is not None}
    return Sampling(**{name: _checked(name, value, RULES[name]) for name, value in given.items()})


def _checked(name: str, value: Any, rule: _Rule) -> Any:
    kind, low, high = rule
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise refused(name, f"{name} has to be {NAMES[kind]}, not {value!r}")
    if (low is not None and value < low) or (high is not None and value > high) or value != value:
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise refused(name, f"{name} has to be {limits}, not {value}")
    return value


NAMES = {int: "an integer", float: "a number", bool: "true or false"}


def refused(name: str, message: str) -> InvalidRequest:
    """The error of one input or parameter."""
    return InvalidRequest(message, detail=[{"loc": [name], "msg": message, "type": "value_error"}])
