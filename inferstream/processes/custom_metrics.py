"""Metrics of model code, on the way to the process that keeps their numbers."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from ..telemetry.custom import CUSTOM
from .frames import Frame, Logged, Registered


class CustomMetricSender:
    """Tells another process what model code registers and logs here, from whatever thread it does so.

    Each value leaves at once, before the response of the call that has logged it.
    """

    def __init__(self, send: Callable[[Frame], object]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def registered(self, name: str, description: str) -> None:
        """Model code has registered a metric."""
        self._tell(Registered(name, description))

    def logged(self, model: str, version: str, values: dict[str, float]) -> None:
        """Model code has logged a metric."""
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
"""What the process that keeps the numbers does with each of these frames."""
