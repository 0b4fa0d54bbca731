"""Token counts that models report."""

from collections.abc import Sequence

from inferstream.types import InferenceResponse


def count_prompt_tokens(responses: Sequence[InferenceResponse]) -> int:
    """Return the total number of prompt tokens that the models reported."""
    return sum(
        int(response.parameters.get("prompt_tokens", 0))
        for response in responses
        if response.parameters is not None
    )
