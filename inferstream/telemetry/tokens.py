"""Meters of the tokens of one model of text."""

from collections.abc import Iterable
from typing import Self

from prometheus_client.core import CounterMetricFamily, Metric

from .histogram import TOKENS, Histogram

PROVIDER = "inferstream"
"""The value of OpenTelemetry's `gen_ai.provider.name`."""


class TokenMeters:
    """Tokens of calls, counted when each call ends: of prompts as far as models tell them, and of texts."""

    def __init__(self) -> None:
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

    @classmethod
    def collect(cls, found: Iterable[tuple[list[str], Self]]) -> Iterable[Metric]:
        names = ["model", "version"]
        read = CounterMetricFamily(
            "inferstream_input_tokens", "Tokens of prompts, of models that count them", labels=names
        )
        written = CounterMetricFamily(
            "inferstream_output_tokens", "Tokens of texts, counted when their calls end", labels=names
        )
        for labels, meters in found:
            read.add_metric(labels, meters.input.total)
            written.add_metric(labels, meters.output.total)
        return (read, written)
