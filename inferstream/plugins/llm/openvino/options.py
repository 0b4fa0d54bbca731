"""Converts sampling parameters to the generation configuration of the library."""

from typing import Any

from inferstream.plugins.text.fields import field_error
from inferstream.types import InferenceRequest

from ..requests import GenerationReader, ReadRequest
from ..sampling import Sampling
from ..token_stream import TokenStream
from .formats import LibraryText

MISSING = ("logit_bias", "allowed_token_ids", "bad_words", "prompt_logprobs", "truncate_prompt_tokens")
"""Parameters for which the library has no option."""

MAX_MIN_P = 1 - 2**-24
"""The library accepts only values below 1."""

UNLIMITED = 2**31
"""Values of `top_k` from here on mean all tokens."""


class OptionReader(GenerationReader):
    """Reads requests, and rejects the parameters that the library does not support."""

    def read(self, request: InferenceRequest, single: bool) -> ReadRequest:
        read = super().read(request, single)
        for name in MISSING:
            if getattr(read.sampling, name) not in (None, ()):
                raise field_error(name, f"{name} is not taken: OpenVINO GenAI has no such option")
        if read.sampling.top_logprobs:
            reason = "OpenVINO GenAI reports the log probability of the chosen token only"
            raise field_error("top_logprobs", f"top_logprobs is not taken: {reason}")
        return read


def build_config(library: Any, stream: TokenStream, ends: frozenset[int]) -> Any:
    """Return the `GenerationConfig` for the rest of a stream. `ends` are the end tokens of the model."""
    sampling = stream.sampling
    config = library.GenerationConfig()
    config.max_new_tokens = stream.limit - len(stream.tokens)
    config.min_new_tokens = max(0, sampling.min_tokens - stream.written)
    config.logprobs = int(sampling.logprobs)
    for name in ("repetition_penalty", "presence_penalty", "frequency_penalty"):
        setattr(config, name, getattr(sampling, name))
    if sampling.temperature > 0:
        config.do_sample, config.rng_seed = True, stream.generator
        config.temperature, config.top_p = sampling.temperature, sampling.top_p
        config.min_p = min(sampling.min_p, MAX_MIN_P)
        if sampling.top_k:
            config.top_k = sampling.top_k
    stops = {*sampling.stop_token_ids}
    if isinstance(stream.writing, LibraryText):
        config.structured_output_config = stream.writing.config
    if stream.writing is not None or not sampling.ignore_eos:
        stops |= ends
    if stops:
        config.stop_token_ids = stops
        config.eos_token_id = min(stops)  # has to be one of them
    else:
        config.ignore_eos = True
    return config


def read_defaults(config: Any) -> Sampling:
    """Return the default parameters in a `GenerationConfig`, which is greedy unless the model sets more."""
    if not config.do_sample:
        return Sampling(repetition_penalty=config.repetition_penalty)
    return Sampling(
        temperature=config.temperature,
        top_k=config.top_k if config.top_k < UNLIMITED else 0,
        top_p=config.top_p,
        min_p=config.min_p,
        repetition_penalty=config.repetition_penalty,
    )
