"""The model and the request whose code is running, for log lines and custom metrics."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..context import request_id_var

model_var: ContextVar[tuple[str, str]] = ContextVar("model", default=("", ""))
"""The name and the version of the model whose code is running; empty elsewhere, and for a model without a version."""


def get_logger(area: str) -> logging.Logger:
    """The logger of an area of the server, such as `runtimes`, with the level and the format of the settings."""
    return logging.getLogger(f"{__package__.partition('.')[0]}.{area}")


def _no_span() -> tuple[str, str] | None:
    return None


_current_span: Callable[[], tuple[str, str] | None] = _no_span  # until there is a tracer


def trace_by(current: Callable[[], tuple[str, str] | None]) -> None:
    """Let log lines have the trace id and the span id that `current` returns from now on."""
    global _current_span
    _current_span = current


def call_fields() -> dict[str, str]:
    """What identifies the call whose code is running: its span, and the id that its client gave it."""
    span = _current_span()
    fields = {} if span is None else {"trace_id": span[0], "span_id": span[1]}
    if request_id := request_id_var.get():
        fields["request_id"] = request_id
    return fields


@contextmanager
def model_context(name: str, version: str | None) -> Iterator[None]:
    token = model_var.set((name, version or ""))
    try:
        yield
    finally:
        model_var.reset(token)
