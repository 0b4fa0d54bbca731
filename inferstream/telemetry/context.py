"""The model and the request whose code is running, for log lines and custom metrics."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from ..context import request_id_var

model_var: ContextVar[tuple[str, str]] = ContextVar("model", default=("", ""))
"""The name and the version of the model whose code is running; empty elsewhere, and for a model without a version."""


def get_logger(area: str) -> logging.Logger:
    """The logger of an area of the server, such as `runtimes`, with the level and the format of the settings."""
    return logging.getLogger(f"{__package__.partition('.')[0]}.{area}")


class SpanIds(NamedTuple):
    """The current span in W3C's form."""

    trace_id: str
    span_id: str


def _no_span() -> SpanIds | None:
    return None


_current_span: Callable[[], SpanIds | None] = _no_span  # until there is a tracer


def trace_by(current: Callable[[], SpanIds | None]) -> None:
    """Let log lines ask `current` for the current span from now on."""
    global _current_span
    _current_span = current


def call_fields() -> dict[str, str]:
    """What identifies the call whose code is running: its span, and the id that its client gave it."""
    span = _current_span()
    fields = {} if span is None else span._asdict()
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
