"""The model whose code is running, for log lines and custom metrics."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

model_name_var: ContextVar[str] = ContextVar("model_name", default="")
model_version_var: ContextVar[str] = ContextVar("model_version", default="")


@contextmanager
def model_context(name: str, version: str | None) -> Iterator[None]:
    name_token = model_name_var.set(name)
    version_token = model_version_var.set(version or "")
    try:
        yield
    finally:
        model_name_var.reset(name_token)
        model_version_var.reset(version_token)
