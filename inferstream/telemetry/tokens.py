"""Meters of the tokens of one model of text."""

from .histogram import TOKENS, Histogram
from .meter_set import MeterSet, counter

PROVIDER = "inferstream"
"""The value of OpenTelemetry's `gen_ai.provider.name`."""


class TokenMeters(MeterSet):
    """Tokens of calls, counted when each call ends: of prompts as far as models tell them, and of texts."""

    read = counter(
        "inferstream_input_tokens",
        "Tokens of prompts, of models that count them",
        read=lambda self: self.input.total,
    )
    written = counter(
        "inferstream_output_tokens",
        "Tokens of texts, counted when their calls end",
        read=lambda self: self.output.total,
    )

    def __init__(self) -> None:
        super().__init__()
        self.operation: str | None = None
        """The kind of the model for OpenTelemetry, if it is known."""
        self.input = Histogram(TOKENS)
        self.output = Histogram(TOKENS)

    def used(self, read: int | None, written: int | None) -> None:
        """Count the tokens of one call; None for a number that is not known."""
        if read is not None:
            self.input.observe(read)
        if written is not None:
            self.output.observe(written)
