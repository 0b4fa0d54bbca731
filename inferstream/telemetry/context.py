"""Which model's code is running here, for log lines and custom metrics."""

from contextvars import ContextVar

model_name_var: ContextVar[str] = ContextVar("model_name", default="")
model_version_var: ContextVar[str] = ContextVar("model_version", default="")
