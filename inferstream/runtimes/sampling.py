"""Reads and checks the parameters of a request for text: how to choose tokens, and how many."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from ..text.decisive_options import NEUTRAL
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

RULED_OUT = -1e9
"""The logit of a token that may not come. It is finite, so that a token can be chosen even if none may come."""

MOST_WORDS = 256
LONGEST_WORD = 100


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
    stop_token_ids: Collection[int] = ()
    min_tokens: int = 0
    """Tokens before which neither the model nor `stop_token_ids` end the text."""
    allowed_token_ids: Collection[int] = ()
    bad_words: Collection[str] = ()
    skip_special_tokens: bool = True
    truncate_prompt_tokens: int | None = None
    """Last tokens of the prompt that are read; None for all."""
    prompt_logprobs: int | None = None
    """Most likely tokens at each place of the prompt, which gets log probabilities; None if it gets none."""

    @property
    def adjusts(self) -> bool:
        """Whether the logits of a token depend on the tokens before it by more than the model."""
        return bool(self.repetition_penalty != 1 or self.presence_penalty or self.frequency_penalty)

    @property
    def restricts(self) -> bool:
        """Whether single tokens are more or less likely, or may not come."""
        return bool(self.logit_bias or self.min_tokens or self.allowed_token_ids or self.bad_words)


class Restrictions:
    """Single tokens that are more or less likely, or may not come, in one text.

    `ends` are the tokens by which the model ends a text, and `array` makes an array for the logits of its library.
    """

    def __init__(
        self,
        sampling: Sampling,
        ends: Iterable[int],
        tokenize: Callable[[str], list[int]],
        array: Callable[[Any], Any],
    ) -> None:
        late = [*ends, *sampling.stop_token_ids] if sampling.min_tokens else []
        self._late, self._least = array(late) if late else None, sampling.min_tokens
        self._allowed = array([*sampling.allowed_token_ids]) if sampling.allowed_token_ids else None
        self._bias = [array(each) for each in sampling.logit_bias or ()]
        words = [text for word in sampling.bad_words for text in (word, f" {word}")]
        self._words = [tokens for word in words if (tokens := tokenize(word))]

    def apply(self, scores: Any, tokens: Sequence[int], written: int) -> Any:
        """Change the logits of the token behind `tokens`, so many of which are written, in place."""
        if self._allowed is not None:
            kept = scores[self._allowed]
            scores[:] = 2 * RULED_OUT  # they stay out even if the others are ruled out too
            scores[self._allowed] = kept
        if self._bias:
            biased, values = self._bias
            scores[biased] += values
        if self._late is not None and written < self._least:
            scores[self._late] = RULED_OUT
        for *before, last in self._words:
            if tokens[len(tokens) - len(before) :] == before:
                scores[last] = RULED_OUT
        return scores


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
    "min_tokens": (0, 2**31),
    "truncate_prompt_tokens": (1, 2**31),
}
_FLAGS = ("logprobs", "ignore_eos", "skip_special_tokens")
_TOKENS = ("stop_token_ids", "allowed_token_ids")
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
        if name == "truncate" and type(value) is int:  # as TGI has it; Ollama's is true or false
            name = "truncate_prompt_tokens"
        if name in _NUMBERS:
            given[name] = _number(name, value)
        elif name in _INTEGERS:
            given[name] = _integer(name, value)
        elif name in _FLAGS:
            given[name] = read_flag(name, value)
        elif name == "logit_bias":
            given[name] = _biases(value, vocabulary)
        elif name in _TOKENS:
            given[name] = frozenset(read_tokens(name, value, vocabulary, vocabulary))
        elif name == "bad_words":
            given[name] = _words(value)
        else:
            refuse_unknown(name, value, OF_CHATS)
    if not given:
        return default
    if "temperature" not in given and default.temperature == 0 and any(name in given for name in _SAMPLES):
        given["temperature"] = 1.0
    if given.get("top_k") == -1:
        given["top_k"] = 0
    if given.get("top_logprobs") and not given.get("logprobs"):
        raise refused("top_logprobs", "top_logprobs needs logprobs to be true")
    sampling = replace(default, **given)
    if sampling.max_tokens is not None and sampling.min_tokens > sampling.max_tokens:
        raise refused("min_tokens", f"min_tokens is at most max_tokens, {sampling.max_tokens}")
    return sampling


def refuse_unknown(name: str, value: Any, known: Collection[str]) -> None:
    """Raise InvalidRequest for a parameter that would have no effect, unless it has its neutral value."""
    if name not in known and name not in OF_SERVER and (name not in NEUTRAL or value != NEUTRAL[name]):
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


def read_flag(name: str, value: Any) -> bool:
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


def _words(text: Any) -> list[str]:
    words = _parsed(text)
    if not isinstance(words, list) or not all(isinstance(each, str) and each for each in words):
        raise refused("bad_words", "bad_words is a list of strings, none of them empty")
    if len(words) > MOST_WORDS or max(map(len, words), default=0) > LONGEST_WORD:
        raise refused("bad_words", f"bad_words holds at most {MOST_WORDS} words of {LONGEST_WORD} characters")
    return words


def _biases(text: Any, vocabulary: int) -> tuple[list[int], list[float]] | None:
    biases = _parsed(text)
    if not isinstance(biases, dict) or not all(len(key) < 10 and key.isdecimal() for key in biases):
        raise refused("logit_bias", "logit_bias is an object of token numbers")
    if not all(type(bias) in (int, float) and -100 <= bias <= 100 for bias in biases.values()):
        raise refused("logit_bias", "logit_bias holds numbers from -100 to 100")
    if not biases:
        return None
    tokens = read_tokens("logit_bias", [*map(int, biases)], vocabulary, vocabulary)
    return tokens, [*map(float, biases.values())]


def _parsed(value: Any) -> Any:
    try:
        return orjson.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
