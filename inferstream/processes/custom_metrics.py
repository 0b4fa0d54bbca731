"""Metrics from model code, which are sent to the process that aggregates them."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from ..telemetry.custom import CUSTOM
from .frames import Frame, Logged, Registered


class CustomMetricSender:
    """Sends metrics from model code in any thread. Each value is sent before the response of its call."""

    def __init__(self, send: Callable[[Frame], object]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def register(self, name: str, description: str) -> None:
        self._send_frame(Registered(name, description))

    def log(self, model: str, version: str, values: dict[str, float]) -> None:
        self._send_frame(Logged(model, version, values))

    def _send_frame(self, frame: Frame) -> None:
        if threading.get_ident() == self._thread:
            self._send(frame)
        else:
            self._loop.call_soon_threadsafe(self._send, frame)


RECEIVERS: dict[type[Frame], Callable[[Any], object]] = {
    Logged: lambda frame: CUSTOM.observe(frame.model, frame.version, frame.values),
    Registered: lambda frame: CUSTOM.register(frame.name, frame.description),
}
"""Handlers of these frames in the process that aggregates metrics."""
