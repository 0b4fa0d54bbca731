"""Reads and checks the parameters of a request for text: how to choose tokens, and how many."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from ..text.fields import refused
from ..text.inputs import TOKEN_IDS

MOST_LOGPROBS = 20
"""Most likely tokens that a request may ask for, as with OpenAI."""

OF_SERVER = frozenset(
    ("content_type", "headers", "priority", "timeout", "items_per_second", "binary_data_output", "stream")
) | {"sequence_id", "sequence_start", "sequence_end", "triton_enable_empty_final_response"}
"""Parameters of requests that are for the server, whatever the model is."""

OF_CHATS = frozenset(("tool_choice", "parallel_tool_calls", TOKEN_IDS))
"""Parameters that are read with the prompt."""

NEUTRAL = dict.fromkeys(("mirostat", "use_beam_search", "watermark", "truncate", "shift"), False)
NEUTRAL |= dict.fromkeys(("skip_special_tokens", "typical_p"), True)
"""Options of other servers, each with the value that changes nothing, or the number that equals it."""


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
    logit_bias: tuple[list[int], list[float]] | None = None
    """Numbers of tokens, and what is added to the logits of each."""
    prompt_logprobs: int | None = None
    """Most likely tokens at each place of the prompt, which gets log probabilities; None if it gets none."""

    @property
    def adjusts(self) -> bool:
        """Whether the logits of a token depend on more than the model."""
        penalties = self.repetition_penalty != 1 or self.presence_penalty or self.frequency_penalty
        return bool(penalties or self.logit_bias)


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
    "prompt_logprobs": (0, MOST_LOGPROBS),
}
_FLAGS = ("logprobs", "ignore_eos")
_SAMPLES = ("top_k", "top_p", "min_p")


def read_sampling(parameters: Mapping[str, Any], default: Sampling, vocabulary: int = 0) -> Sampling:
    """The sampling of a request, which `default` completes. The model knows so many tokens.

    A request that restricts the choice but names no temperature gets 1 where the default is greedy.
    Raises InvalidRequest that names the parameter, also for one that has no effect here.
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
        elif name == "logit_bias":
            given[name] = _biases(value, vocabulary)
        else:
            refuse_unknown(name, value, OF_CHATS, NEUTRAL)
    if not given:
        return default
    if "temperature" not in given and default.temperature == 0 and any(name in given for name in _SAMPLES):
        given["temperature"] = 1.0
    if given.get("top_k") == -1:
        given["top_k"] = 0
    if given.get("top_logprobs") and not given.get("logprobs"):
        raise refused("top_logprobs", "top_logprobs needs logprobs to be true")
    return replace(default, **given)


def refuse_unknown(name: str, value: Any, known: Collection[str], neutral: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a parameter that would have no effect, unless it has its `neutral` value."""
    if name not in known and name not in OF_SERVER and (name not in neutral or value != neutral[name]):
        raise refused(name, f"{name} is not an option of the model")


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


def read_tokens(name: str, text: Any, vocabulary: int, most: int) -> list[int]:
    """Numbers of tokens, which are a JSON list. Raises InvalidRequest."""
    tokens = _parsed(text)
    if not isinstance(tokens, list) or not 0 < len(tokens) <= most:
        raise refused(name, f"{name} is a list of 1 to {most} token numbers")
    if not all(type(token) is int and 0 <= token < vocabulary for token in tokens):
        raise refused(name, f"{name} holds token numbers from 0 to {vocabulary - 1}")
    return tokens


def _biases(text: Any, vocabulary: int) -> tuple[list[int], list[float]]:
    biases = _parsed(text)
    if not isinstance(biases, dict) or not all(len(key) < 10 and key.isdecimal() for key in biases):
        raise refused("logit_bias", "logit_bias is an object of token numbers")
    if not all(type(bias) in (int, float) and -100 <= bias <= 100 for bias in biases.values()):
        raise refused("logit_bias", "logit_bias holds numbers from -100 to 100")
    tokens = read_tokens("logit_bias", [*map(int, biases)], vocabulary, vocabulary) if biases else []
    return tokens, [*map(float, biases.values())]


def _parsed(value: Any) -> Any:
    try:
        return orjson.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
