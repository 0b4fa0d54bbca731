"""The model and request of the running code, for log lines and custom metrics."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..context import request_id_var

model_var: ContextVar[tuple[str, str]] = ContextVar("model", default=("", ""))
"""The name and version of the model whose code is running.

Empty strings outside of models or without a version.
"""


def get_logger(area: str) -> logging.Logger:
    """Return the logger of a server area, such as `runtimes`.

    It uses the level and format from the settings.
    """
    return logging.getLogger(f"{__package__.partition('.')[0]}.{area}")


def _no_span() -> tuple[str, str] | None:
    return None


_current_span: Callable[[], tuple[str, str] | None] = _no_span  # until a tracer is set


def set_span_source(current: Callable[[], tuple[str, str] | None]) -> None:
    """Add the trace id and span id that `current` returns to all log lines from now on."""
    global _current_span
    _current_span = current


def call_fields() -> dict[str, str]:
    """Return the identifiers of the current call: trace and span id, and the client's request id."""
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
