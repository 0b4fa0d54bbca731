"""Sampling from logits: candidates, penalties, restrictions and log probabilities."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from inferstream.plugins.llm.llamacpp import sampling as sampling_module
from inferstream.plugins.llm.llamacpp.sampling import choose
from inferstream.plugins.llm.sampling import Sampling
from inferstream.plugins.llm.token_stream import ChosenToken, TokenStream
from inferstream.plugins.text.detokenizer import Detokenizer

LOGITS = np.log(np.array([0.5, 0.2, 0.15, 0.1, 0.05], np.float32))


def stream_of(tokens: list[int] | None = None, prompt: int = 1, seed: int = 0, **options: Any) -> TokenStream:
    stream = TokenStream(tokens or [0], 100, Sampling(**options), Detokenizer(str), single=False)
    stream.prompt_length = prompt
    stream.generator = np.random.default_rng(seed)
    return stream


def draw(count: int = 4000, logits: Any = LOGITS, **options: Any) -> dict[int, float]:
    """The share of each token."""
    stream = stream_of(**options)
    tokens = Counter(choose(logits[None], [stream])[0].token for _ in range(count))
    return {token: number / count for token, number in sorted(tokens.items())}


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        ({}, [0.5, 0.2, 0.15, 0.1, 0.05]),
        ({"top_k": 2}, [5 / 7, 2 / 7]),
        ({"top_k": 9}, [0.5, 0.2, 0.15, 0.1, 0.05]),
        ({"top_p": 0.6}, [5 / 7, 2 / 7]),
        ({"top_p": 0.01}, [1]),
        ({"min_p": 0.25}, [10 / 17, 4 / 17, 3 / 17]),
        ({"temperature": 0.5, "top_p": 0.6}, [25 / 29, 4 / 29]),  # the temperature applies last
        ({"temperature": 1000, "top_k": 2}, [0.5, 0.5]),
    ],
)
def test_candidates_are_drawn_by_their_probability(options: dict[str, Any], shares: list[float]) -> None:
    found = draw(**{"temperature": 1, **options})
    assert [*found] == [*range(len(shares))]
    assert [*found.values()] == pytest.approx(shares, abs=0.03)


def test_nucleus_beyond_the_sorted_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_module, "FIRST", 2)
    assert [*draw(temperature=1, top_p=0.8)] == [0, 1, 2]


def test_seeded_streams_are_reproducible_and_independent_of_others() -> None:
    logits = np.random.default_rng(1).normal(size=(50, 3, 100)).astype(np.float32)
    streams = [stream_of(seed=seed, temperature=1) for seed in (7, 7, 8)]
    same = np.repeat(logits[:, :1], 3, axis=1)
    one, two, three = zip(*([each.token for each in choose(row, streams)] for row in same), strict=True)
    alone = stream_of(seed=7, temperature=1)
    assert one == two == tuple(choose(row[:1], [alone])[0].token for row in same)
    assert one != three


@pytest.mark.parametrize(
    ("options", "tokens", "prompt", "expected"),
    [
        ({}, [0, 1], 1, 1),
        ({"repetition_penalty": 2.0}, [0, 1], 1, 2),  # also tokens of the prompt
        ({"presence_penalty": 1.5}, [1, 1, 0], 3, 1),  # only tokens that were written
        ({"presence_penalty": 1.5}, [0, 1, 1], 1, 2),
        ({"frequency_penalty": 0.4}, [0, 1], 1, 1),
        ({"frequency_penalty": 0.4}, [0, 1, 1, 1], 1, 2),
    ],
)
def test_penalties_change_the_choice(
    options: dict[str, float], tokens: list[int], prompt: int, expected: int
) -> None:
    logits = np.array([[-1.0, 3.0, 2.0, 0.0]], np.float32)
    assert choose(logits, [stream_of(tokens, prompt, **options)]) == [ChosenToken(expected)]
    assert logits.tolist() == [[-1, 3, 2, 0]]


def test_log_probabilities_are_those_before_adjustments() -> None:
    stream = stream_of([0, 0], 1, logprobs=True, top_logprobs=2, presence_penalty=2.0)
    (choice,) = choose(LOGITS[None], [stream])
    assert choice.token == 1
    assert choice.logprob == pytest.approx(np.log(0.2))
    assert choice.top is not None
    assert [token for token, _ in choice.top] == [0, 1]
    assert [logprob for _, logprob in choice.top] == pytest.approx(np.log([0.5, 0.2]))
