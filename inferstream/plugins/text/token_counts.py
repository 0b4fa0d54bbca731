"""Counts of tokens that models report."""

from collections.abc import Sequence

from inferstream.types import InferenceResponse


def tokens_read(responses: Sequence[InferenceResponse]) -> int:
    """Tokens of prompts, where the model says how many."""
    return sum(
        int(response.parameters.get("prompt_tokens", 0))
        for response in responses
        if response.parameters is not None
    )
