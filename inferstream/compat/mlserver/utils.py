"""Odds and ends that runtimes use."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from enum import Enum
from inspect import unwrap
from typing import Any

from inferstream.concurrency.event_loop import new_event_loop
from inferstream.repository.uri import get_model_uri, to_absolute_path
from inferstream.types import InferenceRequest, InferenceResponse, Parameters

__all__ = [
    "AsyncManager",
    "EventLoopBackend",
    "extract_headers",
    "generate_uuid",
    "get_model_uri",
    "get_wrapped_method",
    "insert_headers",
    "install_uvloop_event_loop",
    "schedule_with_callback",
    "to_absolute_path",
]


def generate_uuid() -> str:
    """A random id."""
    return str(uuid.uuid4())


def get_wrapped_method(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function that decorators stand around."""
    method: Callable[..., Any] = unwrap(f)
    return method


def insert_headers(inference_request: InferenceRequest, headers: dict[str, str]) -> InferenceRequest:
    """Put transport headers into a request's parameters."""
    if inference_request.parameters is None or "parameters" not in inference_request.model_fields_set:
        inference_request.parameters = Parameters()
    inference_request.parameters.headers = headers
    return inference_request


def extract_headers(inference_response: InferenceResponse) -> dict[str, Any] | None:
    """Take transport headers out of a response's parameters."""
    parameters = inference_response.parameters
    if parameters is None or parameters.headers is None:
        return None
    headers, parameters.headers = dict(parameters.headers), None
    return headers


def schedule_with_callback(
    coro: Coroutine[Any, Any, Any], cb: Callable[["asyncio.Task[Any]"], object]
) -> "asyncio.Task[Any]":
    """A task that tells `cb` its end."""
    task = asyncio.create_task(coro)
    task.add_done_callback(cb)
    return task


def install_uvloop_event_loop() -> None:
    """Nothing is left to install: the server runs on uvloop where there is one."""


class EventLoopBackend(Enum):
    """Which event loops there are."""

    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class AsyncManager:
    """Runs coroutines on an event loop as the server's."""

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """What the coroutine returns, on a loop of its own."""
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(coro)
