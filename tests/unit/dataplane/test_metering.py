"""The tokens of calls with keys."""

from inferstream.dataplane.metering import _tokens
from inferstream.types import InferenceResponse, Parameters


def answer(parameters: Parameters | None) -> InferenceResponse:
    return InferenceResponse(model_name="m", parameters=parameters, outputs=[])


def test_items_count_where_the_model_tells_nothing() -> None:
    assert _tokens(None, 3) == 3
    assert _tokens(answer(None), 3) == 3
    assert _tokens(answer(Parameters()), 3) == 3


def test_the_models_own_usage_counts() -> None:
    assert _tokens(answer(Parameters(prompt_tokens=5, completion_tokens=7)), 3) == 12
