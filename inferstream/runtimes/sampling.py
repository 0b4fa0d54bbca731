"""Reads and checks the parameters of a request for text: how to choose tokens, and how many."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InvalidRequest

MOST_LOGPROBS = 20
"""Most likely tokens that a request may ask for, as with OpenAI."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. A temperature of 0 takes the most likely one."""

    temperature: float = 0.0
    top_k: int = 0
    """Choose among so many tokens; 0 is all."""
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    ignore_eos: bool = False

    @property
    def penalises(self) -> bool:
        """Whether tokens that were there before are more or less likely."""
        return bool(self.repetition_penalty != 1 or self.presence_penalty or self.frequency_penalty)


_NUMBERS = {
    # name: (least, most, whether the least value itself is refused)
    "temperature": (0.0, math.inf, False),
    "top_p": (0.0, 1.0, True),
    "min_p": (0.0, 1.0, False),
    "repetition_penalty": (0.0, math.inf, True),
    "presence_penalty": (-2.0, 2.0, False),
    "frequency_penalty": (-2.0, 2.0, False),
}
_INTEGERS = {
    "top_k": (-1, 2**31),
    "seed": (-(2**63), 2**64 - 1),
    "max_tokens": (1, 2**31),
    "top_logprobs": (0, MOST_LOGPROBS),
}
_FLAGS = ("logprobs", "ignore_eos")
_SAMPLES = ("top_k", "top_p", "min_p")


def read_sampling(parameters: Mapping[str, Any], default: Sampling) -> Sampling:
    """The sampling of a request, which `default` completes. Parameters of other names are not looked at.

    A request that restricts the choice but names no temperature gets 1 where the default is greedy.
    Raises InvalidRequest that names the parameter.
    """
    given: dict[str, Any] = {}
    for name, value in parameters.items():
        if value is None:
            continue
        if name in _NUMBERS:
            given[name] = _number(name, value)
        elif name in _INTEGERS:
            given[name] = _integer(name, value)
        elif name in _FLAGS:
            given[name] = _flag(name, value)
    if not given:
        return default
    if "temperature" not in given and default.temperature == 0 and any(name in given for name in _SAMPLES):
        given["temperature"] = 1.0
    if given.get("top_k") == -1:
        given["top_k"] = 0
    return replace(default, **given)


def _number(name: str, value: Any) -> float:
    least, most, above = _NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise refused(name, f"{name} is a number, not {value!r}")
    if value < least or value > most or (above and value == least):
        bound = f"more than {least:g}" if above else f"{least:g} or more"
        raise refused(
            name, f"{name} is {bound}{'' if most == math.inf else f' and at most {most:g}'}, not {value:g}"
        )
    return float(value)


def _integer(name: str, value: Any) -> int:
    least, most = _INTEGERS[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise refused(name, f"{name} is an integer, not {value!r}")
    if not least <= value <= most:
        raise refused(name, f"{name} is from {least} to {most}, not {value}")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise refused(name, f"{name} is true or false, not {value!r}")
    return value


def refused(name: str, sentence: str) -> InvalidRequest:
    """The error of one part of a request, which `name` names to the client."""
    sentence = f"{sentence}."
    return InvalidRequest(sentence, detail=[{"loc": [name], "msg": sentence, "type": "value_error"}])
