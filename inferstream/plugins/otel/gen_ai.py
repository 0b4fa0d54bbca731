"""Attributes of the OpenTelemetry conventions for generative AI, and the choice of their version."""

import os
from typing import NamedTuple

PROVIDER = "inferstream"
"""The value of `gen_ai.provider.name`."""

LATEST = "gen_ai_latest_experimental"


class Names(NamedTuple):
    """The versions of the conventions whose names are used."""

    old: bool
    """The names from before GenAI v0.1.0."""
    new: bool
    """The names of GenAI v0.1.0."""


def choose_names() -> Names:
    """Read OTEL_SEMCONV_STABILITY_OPT_IN, a list of opt-ins. The suffix `/dup` selects old and new names."""
    opt_ins = {each.strip() for each in os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").split(",")}
    both = f"{LATEST}/dup" in opt_ins
    new = both or LATEST in opt_ins
    return Names(both or not new, new)


def model_attributes(model: str, operation: str) -> dict[str, str]:
    """Return the common attributes of a model's spans and metrics.

    `operation` is, for example, `text_completion`.
    """
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
    }
