"""Samples the next tokens of a batch, in the same order of operations as `generate` in transformers."""

from collections.abc import Sequence

import torch

from ..sampling import Sampling
from ..token_stream import ChosenToken, TokenStream

FIRST = 1024
"""Number of tokens to sort for top_p. If they are not enough, all are sorted."""


def choose(logits: torch.Tensor, streams: Sequence[TokenStream]) -> list[ChosenToken]:
    """Choose the next token of each stream from its row of `logits`."""
    scores = logits.float()
    plain = scores
    if any(each.sampling.adjusts or each.restrictions or each.writing for each in streams):
        scores = scores.clone()
        for row, stream in zip(scores, streams, strict=True):
            _adjust(row, stream)
            if stream.writing is not None:
                allowed = torch.from_numpy(stream.writing.allowed_mask(len(row))).to(row.device)
                row.masked_fill_(~allowed, -torch.inf)
    tokens: list[int] = scores.argmax(-1).tolist()
    sampled = [index for index, each in enumerate(streams) if each.sampling.temperature > 0]
    if sampled:
        rows = scores if len(sampled) == len(tokens) else scores[sampled]
        drawn = _draw(rows, [streams[index] for index in sampled])
        for index, token in zip(sampled, drawn, strict=True):
            tokens[index] = token
    choices = [ChosenToken(token) for token in tokens]
    for index, stream in enumerate(streams):
        if stream.sampling.logprobs:
            choices[index] = add_logprobs(plain[index], tokens[index], stream.sampling.top_logprobs)
    return choices


def _adjust(scores: torch.Tensor, stream: TokenStream) -> None:
    """Apply penalties for repeated tokens and the restrictions of the request, in place."""
    sampling = stream.sampling
    if sampling.repetition_penalty != 1:
        seen = torch.tensor(stream.tokens, device=scores.device).unique()
        before = scores[seen]
        penalty = sampling.repetition_penalty
        scores[seen] = torch.where(before < 0, before * penalty, before / penalty)
    written = stream.tokens[stream.prompt_length :]
    if written and (sampling.presence_penalty or sampling.frequency_penalty):
        tokens, counts = torch.tensor(written, device=scores.device).unique(return_counts=True)
        scores[tokens] -= sampling.presence_penalty + sampling.frequency_penalty * counts
    if stream.restrictions is not None:
        stream.restrictions.apply(scores, stream.tokens, stream.written)


def _draw(scores: torch.Tensor, streams: Sequence[TokenStream]) -> list[int]:
    """Sample a token of each row with the stream's own generator."""
    samplings = [each.sampling for each in streams]
    scores = scores / _column([each.temperature for each in samplings], scores)
    scores = _keep_top_k(scores, samplings)
    scores = _keep_top_p(scores, samplings)
    probabilities = scores.softmax(-1)
    if any(each.min_p for each in samplings):
        least = _column([each.min_p for each in samplings], scores) * probabilities.amax(-1, keepdim=True)
        probabilities = scores.masked_fill(probabilities < least, -torch.inf).softmax(-1)
    drawn = [
        torch.multinomial(row, 1, generator=stream.generator)
        for row, stream in zip(probabilities, streams, strict=True)
    ]
    tokens: list[int] = torch.cat(drawn).tolist()  # one device synchronisation for all streams
    return tokens


def _keep_top_k(scores: torch.Tensor, samplings: Sequence[Sampling]) -> torch.Tensor:
    size = scores.shape[-1]
    counts = [min(each.top_k or size, size) for each in samplings]
    limited = [count for count in counts if count < size]
    if not limited:
        return scores
    best = scores.topk(max(limited)).values
    least = [
        row[count - 1] if count < size else row.new_tensor(-torch.inf)
        for row, count in zip(best, counts, strict=True)
    ]
    return scores.masked_fill(scores < torch.stack(least)[:, None], -torch.inf)


def _keep_top_p(scores: torch.Tensor, samplings: Sequence[Sampling]) -> torch.Tensor:
    """Keep the smallest set of most likely tokens in each row whose probability reaches its `top_p`."""
    if all(each.top_p >= 1 for each in samplings):
        return scores
    mass = _column([each.top_p for each in samplings], scores)
    everything = mass >= 1
    probabilities, size = scores.softmax(-1), scores.shape[-1]
    best, tokens = probabilities.topk(min(FIRST, size))
    sums = best.cumsum(-1)
    if not bool((everything | (sums[:, -1:] >= mass)).all()):
        best, tokens = probabilities.sort(descending=True)
        sums = best.cumsum(-1)
    kept = everything.expand_as(scores).scatter(-1, tokens, everything | (sums - best < mass))
    return scores.masked_fill(~kept, -torch.inf)


def add_logprobs(logits: torch.Tensor, token: int, top: int) -> ChosenToken:
    """Return a token with its log probability and the `top` highest ones."""
    logprobs = logits.log_softmax(-1)
    best = logprobs.topk(top) if top else None
    likely = [] if best is None else list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
    return ChosenToken(token, float(logprobs[token]), likely)


def _column(values: list[float], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]
