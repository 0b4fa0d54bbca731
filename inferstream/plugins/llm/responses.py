"""V2 responses for tokens with parameters that a `Token` does not have."""

from typing import Any

import orjson

from inferstream import Token
from inferstream.types import InferenceResponse, MetadataTensor, Parameters, ResponseOutput, TensorData

RESUMED = "resumed"
"""Parameter: true if the stream continues at another engine or worker with other random numbers."""

CACHED_TOKENS = "cached_tokens"
"""Parameter: the number of prompt tokens that the engine had in its cache."""


def build_response(
    model: str, version: str | None, output: MetadataTensor, token: Token, more: dict[str, Any]
) -> InferenceResponse:
    """Return the response for a token, with additional parameters."""
    usage, top, prompt = token.usage, token.top_logprobs, token.prompt_logprobs
    parameters = {
        "token_id": token.id,
        "logprob": token.logprob,
        "token": token.spelling,
        "top_logprobs": None if top is None else orjson.dumps(dict(top)).decode(),
        "prompt_logprobs": None if prompt is None else orjson.dumps(prompt).decode(),
        "finish_reason": token.finish_reason,
        "prompt_tokens": None if usage is None else usage.prompt_tokens,
        "completion_tokens": None if usage is None else usage.completion_tokens,
        **more,
    }
    given = Parameters.of({name: value for name, value in parameters.items() if value is not None})
    tensor = ResponseOutput.of(output.name, [1] * len(output.shape), "BYTES", TensorData([token.text]))
    return InferenceResponse.of(model, [tensor], version, None, given)
