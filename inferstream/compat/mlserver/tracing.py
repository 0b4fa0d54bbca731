"""Where spans go."""

from typing import Any

from inferstream import Settings


def get_tracer_provider(settings: Settings) -> Any:
    """The process's provider of tracers, which is the server's wherever its settings name a collector."""
    from opentelemetry import trace  # late: only who traces has it

    return trace.get_tracer_provider()


__all__ = ["get_tracer_provider"]
