"""Parses and validates the sampling parameters of a request."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from inferstream.plugins.text.decisive_options import NEUTRAL
from inferstream.plugins.text.fields import field_error
from inferstream.plugins.text.inputs import TOKEN_IDS

MAX_LOGPROBS = 20
"""Maximum number of top log probabilities in a request, as in OpenAI."""

OF_SERVER = frozenset(
    ("content_type", "headers", "priority", "timeout", "items_per_second", "binary_data_output", "stream")
) | {"sequence_id", "sequence_start", "sequence_end", "triton_enable_empty_final_response"}
"""Parameters for the server, independent of the model."""

WRITTEN = "written_token_ids"
"""Output tokens that already exist, which the rest follows."""

OF_CHATS = frozenset(("tool_choice", "parallel_tool_calls", TOKEN_IDS, WRITTEN))
"""Parameters that are read together with the prompt."""

RULED_OUT = -1e9
"""Logit of a forbidden token. It is finite, so sampling works even if all tokens are forbidden."""

MAX_WORDS = 256
MAX_WORD_LENGTH = 100


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters. A temperature of 0 is greedy decoding."""

    temperature: float = 0.0
    top_k: int = 0
    """Number of most likely tokens to sample from. 0 for all."""
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
    """Token IDs, and the bias added to the logit of each."""
    stop_token_ids: Collection[int] = ()
    min_tokens: int = 0
    """Number of tokens before which end tokens and `stop_token_ids` are ignored."""
    allowed_token_ids: Collection[int] = ()
    bad_words: Collection[str] = ()
    skip_special_tokens: bool = True
    truncate_prompt_tokens: int | None = None
    """Number of tokens to keep from the end of the prompt. None for all."""
    prompt_logprobs: int | None = None
    """Number of top log probabilities per prompt token. None for no prompt log probabilities."""

    @property
    def adjusts(self) -> bool:
        """Whether penalties change logits depending on earlier tokens."""
        return bool(self.repetition_penalty != 1 or self.presence_penalty or self.frequency_penalty)

    @property
    def restricts(self) -> bool:
        """Whether the logits of single tokens are changed or tokens are forbidden."""
        return bool(self.logit_bias or self.min_tokens or self.allowed_token_ids or self.bad_words)


class Restrictions:
    """Biases and forbidden tokens of one stream.

    `ends` are the end tokens of the model. `array` creates an array of the library that computes the logits.
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
        """Modify the logits that follow `tokens` in place. `written` is the number of generated tokens."""
        if self._allowed is not None:
            kept = scores[self._allowed]
            scores[:] = 2 * RULED_OUT  # excluded even if all allowed tokens are forbidden
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
    # name: (minimum, maximum, whether the minimum is excluded)
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
    "top_logprobs": (0, MAX_LOGPROBS),
    "prompt_logprobs": (0, MAX_LOGPROBS),
    "min_tokens": (0, 2**31),
    "truncate_prompt_tokens": (1, 2**31),
}
_FLAGS = ("logprobs", "ignore_eos", "skip_special_tokens")
_TOKENS = ("stop_token_ids", "allowed_token_ids")
_SAMPLES = ("top_k", "top_p", "min_p")


def read_sampling(parameters: Mapping[str, Any], default: Sampling, vocabulary: int = 0) -> Sampling:
    """Parse the sampling parameters of a request, with `default` for missing ones.

    `vocabulary` is the number of tokens of the model. If the default is greedy, top_k, top_p or min_p without
    a temperature set it to 1. Raises InvalidRequest naming the parameter. A parameter without effect is also
    an error.
    """
    given: dict[str, Any] = {}
    for name, value in parameters.items():
        if value is None:
            continue
        if name == "truncate" and type(value) is int:  # TGI has a number, Ollama a boolean
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
            reject_unknown(name, value, OF_CHATS)
    if not given:
        return default
    if "temperature" not in given and default.temperature == 0 and any(name in given for name in _SAMPLES):
        given["temperature"] = 1.0
    if given.get("top_k") == -1:
        given["top_k"] = 0
    if given.get("top_logprobs") and not given.get("logprobs"):
        raise field_error("top_logprobs", "top_logprobs needs logprobs to be true")
    sampling = replace(default, **given)
    if sampling.max_tokens is not None and sampling.min_tokens > sampling.max_tokens:
        raise field_error("min_tokens", f"min_tokens is at most max_tokens, {sampling.max_tokens}")
    return sampling


def reject_unknown(name: str, value: Any, known: Collection[str]) -> None:
    """Raise InvalidRequest for an unsupported parameter, unless it has its neutral value."""
    if name not in known and name not in OF_SERVER and (name not in NEUTRAL or value != NEUTRAL[name]):
        raise field_error(name, f"{name} is not an option of the model")


def _number(name: str, value: Any) -> float:
    least, most, above = _NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise field_error(name, f"{name} is a number, not {value!r}")
    if value < least or value > most or (above and value == least):
        bound = f"more than {least:g}" if above else f"{least:g} or more"
        raise field_error(
            name, f"{name} is {bound}{'' if most == math.inf else f' and at most {most:g}'}, not {value:g}"
        )
    return float(value)


def _integer(name: str, value: Any) -> int:
    least, most = _INTEGERS[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise field_error(name, f"{name} is an integer, not {value!r}")
    if not least <= value <= most:
        raise field_error(name, f"{name} is from {least} to {most}, not {value}")
    return value


def read_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise field_error(name, f"{name} is true or false, not {value!r}")
    return value


def read_tokens(name: str, text: Any, vocabulary: int, most: int) -> list[int]:
    """Parse token IDs from a JSON list. Raises InvalidRequest."""
    tokens = _parse_json(text)
    if not isinstance(tokens, list) or not 0 < len(tokens) <= most:
        raise field_error(name, f"{name} is a list of 1 to {most} token numbers")
    if not all(type(token) is int and 0 <= token < vocabulary for token in tokens):
        raise field_error(name, f"{name} holds token numbers from 0 to {vocabulary - 1}")
    return tokens


def _words(text: Any) -> list[str]:
    words = _parse_json(text)
    if not isinstance(words, list) or not all(isinstance(each, str) and each for each in words):
        raise field_error("bad_words", "bad_words is a list of strings, none of them empty")
    if len(words) > MAX_WORDS or max(map(len, words), default=0) > MAX_WORD_LENGTH:
        raise field_error(
            "bad_words", f"bad_words holds at most {MAX_WORDS} words of {MAX_WORD_LENGTH} characters"
        )
    return words


def _biases(text: Any, vocabulary: int) -> tuple[list[int], list[float]] | None:
    biases = _parse_json(text)
    if not isinstance(biases, dict) or not all(len(key) < 10 and key.isdecimal() for key in biases):
        raise field_error("logit_bias", "logit_bias is an object of token numbers")
    if not all(type(bias) in (int, float) and -100 <= bias <= 100 for bias in biases.values()):
        raise field_error("logit_bias", "logit_bias holds numbers from -100 to 100")
    if not biases:
        return None
    tokens = read_tokens("logit_bias", [*map(int, biases)], vocabulary, vocabulary)
    return tokens, [*map(float, biases.values())]


def _parse_json(value: Any) -> Any:
    try:
        return orjson.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
