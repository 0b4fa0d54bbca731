"""Writes the sampling parameters of a request as the message of the engine."""

from typing import Any

from inferstream.plugins.text.fields import field_error

from ..requests import ReadRequest
from ..sampling import MAX_LOGPROBS
from . import protos
from .constraints import set_constraint

SEEDS = 2**31
"""Seeds are taken modulo this number, because the engine has 32 bits and reserves -1 for none."""

MISSING = ("allowed_token_ids", "bad_words")
"""Parameters for which the protocol has no field."""

NUMBERS = ("temperature", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
OTHERS = ("top_k", "min_tokens", "ignore_eos")


def build_sampling(read: ReadRequest) -> Any:
    """Return the `Sampling` message, without `max_tokens`. Raises InvalidRequest for missing parameters."""
    given = read.sampling
    for name in MISSING:
        if getattr(given, name):
            raise field_error(name, f"{name} is not taken: the protocol of the engine has no such option")
    sampling = protos.Generate().sampling_params
    for name in (*NUMBERS, *OTHERS):
        setattr(sampling, name, getattr(given, name))
    sampling.stop_token_ids.extend(given.stop_token_ids)
    if given.seed is not None:
        sampling.seed = given.seed % SEEDS
    if given.logprobs:
        sampling.logprobs = _count_logprobs(given.top_logprobs)
    if given.prompt_logprobs is not None:
        sampling.prompt_logprobs = _count_logprobs(given.prompt_logprobs)
    if given.logit_bias is not None:
        sampling.logit_bias.update(zip(*given.logit_bias, strict=True))
    set_constraint(sampling, read.beginning)
    return sampling


def _count_logprobs(top: int) -> int:
    """Return the number to request: the engine counts the chosen token as one of the top."""
    return min(top + 1, MAX_LOGPROBS) if top else 0
