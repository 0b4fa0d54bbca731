"""FastAPI as we use it: routing and parameters, nothing that it does unasked."""

from typing import Any

from fastapi import FastAPI

_SILENT: dict[str, Any] = {
    "telemetry": {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
}
"""Spans and meters are our own; older versions, which make none, take the option for a free one."""


def bare_application(**options: Any) -> FastAPI:
    """An application without documentation, redirects and telemetry of its own."""
    return FastAPI(
        docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, **_SILENT, **options
    )
