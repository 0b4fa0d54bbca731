"""Samples the next tokens of a batch, in the same order of operations as the samplers of llama.cpp."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..sampling import Sampling
from ..token_stream import ChosenToken, TokenStream
from .network import Logits

FIRST = 1024
"""Number of tokens to sort for top_p. If they are not enough, all are sorted."""

Indices = npt.NDArray[np.intp]


def choose(logits: Logits, streams: Sequence[TokenStream]) -> list[ChosenToken]:
    """Choose the next token of each stream from its row of `logits`."""
    likeliest: list[int] = logits.argmax(-1).tolist()
    return [
        _choose(row, stream, token) for row, stream, token in zip(logits, streams, likeliest, strict=True)
    ]


def _choose(logits: Logits, stream: TokenStream, token: int) -> ChosenToken:
    """Choose a token. `token` is the most likely one before adjustments."""
    sampling, scores = stream.sampling, logits
    if sampling.adjusts or stream.restrictions or stream.writing:
        scores = logits.copy()
        _adjust(scores, stream)
        if stream.writing is not None:
            scores[~stream.writing.allowed_mask(len(scores))] = -np.inf
        token = int(scores.argmax())
    if sampling.temperature > 0:
        token = _draw(scores, sampling, stream.generator)
    return add_logprobs(logits, token, sampling.top_logprobs) if sampling.logprobs else ChosenToken(token)


def _adjust(scores: Logits, stream: TokenStream) -> None:
    """Apply penalties for repeated tokens and the restrictions of the request, in place."""
    sampling = stream.sampling
    if sampling.repetition_penalty != 1:
        seen = np.unique(stream.tokens)
        before, penalty = scores[seen], sampling.repetition_penalty
        scores[seen] = np.where(before < 0, before * penalty, before / penalty)
    written = stream.tokens[stream.prompt_length :]
    if written and (sampling.presence_penalty or sampling.frequency_penalty):
        tokens, counts = np.unique(written, return_counts=True)
        scores[tokens] -= sampling.presence_penalty + sampling.frequency_penalty * counts
    if stream.restrictions is not None:
        stream.restrictions.apply(scores, stream.tokens, stream.written)


def _draw(scores: Logits, sampling: Sampling, generator: np.random.Generator) -> int:
    """Sample a token: top_k, top_p and min_p choose the candidates, and the temperature applies last."""
    scores = scores - scores.max()
    tokens: Indices | None = None
    if 0 < sampling.top_k < len(scores):
        tokens = _find_highest(scores, sampling.top_k)
        scores = scores[tokens]
    if sampling.top_p < 1:
        kept = _find_nucleus(np.exp(scores), sampling.top_p)
        tokens, scores = kept if tokens is None else tokens[kept], scores[kept]
    if sampling.min_p:
        scores = np.where(scores < math.log(sampling.min_p), -np.inf, scores)
    sums = np.exp(scores / sampling.temperature).cumsum(dtype=np.float64)
    drawn = int(np.searchsorted(sums, generator.random() * sums[-1], side="right"))
    drawn = min(drawn, len(scores) - 1)
    return drawn if tokens is None else int(tokens[drawn])


def _find_highest(values: npt.NDArray[Any], count: int) -> Indices:
    """Return the indices of the highest values in descending order."""
    best = np.argpartition(values, -count)[-count:] if count < len(values) else np.arange(len(values))
    return best[np.argsort(-values[best])]


def _find_nucleus(weights: Logits, share: float) -> Indices:
    """Return the indices of the smallest set of highest weights that has this share of the sum."""
    needed = share * float(weights.sum())
    best = _find_highest(weights, FIRST)
    sums = weights[best].cumsum()
    if sums[-1] < needed and len(best) < len(weights):
        best = _find_highest(weights, len(weights))
        sums = weights[best].cumsum()
    return best[: int(np.searchsorted(sums, needed)) + 1]


def add_logprobs(logits: Logits, token: int, top: int) -> ChosenToken:
    """Return a token with its log probability and the `top` highest ones."""
    highest = float(logits.max())
    total = highest + math.log(np.exp(logits - highest).sum(dtype=np.float64))
    likely = [(int(each), float(logits[each]) - total) for each in _find_highest(logits, top)] if top else []
    return ChosenToken(token, float(logits[token]) - total, likely)
