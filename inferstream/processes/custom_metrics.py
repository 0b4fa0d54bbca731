"""Metrics of model code, sent to the process that keeps their numbers."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from ..telemetry.custom import CUSTOM
from .frames import Frame, Logged, Registered


class CustomMetricSender:
    """Sends metrics of model code from any thread. Each value goes before the response of the call that logged it."""

    def __init__(self, send: Callable[[Frame], object]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def registered(self, name: str, description: str) -> None:
        self._tell(Registered(name, description))

    def logged(self, model: str, version: str, values: dict[str, float]) -> None:
        self._tell(Logged(model, version, values))

    def _tell(self, frame: Frame) -> None:
        if threading.get_ident() == self._thread:
            self._send(frame)
        else:
            self._loop.call_soon_threadsafe(self._send, frame)


RECEIVERS: dict[type[Frame], Callable[[Any], object]] = {
    Logged: lambda frame: CUSTOM.observe(frame.model, frame.version, frame.values),
    Registered: lambda frame: CUSTOM.register(frame.name, frame.description),
}
"""Handlers of these frames in the process that keeps the numbers."""
