"""Attributes of OpenTelemetry's conventions for generative models."""

PROVIDER = "inferstream"
"""The value of `gen_ai.provider.name`."""


def model_attributes(model: str, operation: str) -> dict[str, str]:
    """The attributes that all spans and metrics of a model have. `operation` is a kind such as `text_completion`."""
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
    }
