"""What model code subclasses, and the functions that runtimes call: ids, headers, routes and coroutines."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from enum import Enum
from inspect import unwrap
from typing import Any

import inferstream
from inferstream.concurrency.event_loop import new_event_loop
from inferstream.handlers import CustomHandler, custom_handler
from inferstream.types import InferenceRequest, InferenceResponse, Parameters


class MLModel(inferstream.MLModel):
    """One servable model, which answers a request's `outputs` as it likes: MLServer refuses none."""

    selects_outputs = None
    for_mlserver = True


def register_custom_handler(handler: CustomHandler, method: Callable[..., Any]) -> None:
    """Serve the route `handler` by a method of a model."""
    custom_handler(*handler)(method)


def generate_uuid() -> str:
    """A random id."""
    return str(uuid.uuid4())


def get_wrapped_method(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside of its decorators."""
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
    """A task that calls `cb` at its end."""
    task = asyncio.create_task(coro)
    task.add_done_callback(cb)
    return task


def install_uvloop_event_loop() -> None:
    """Does nothing: the server runs on uvloop where uvloop is installed."""


class EventLoopBackend(Enum):
    """Which event loops there are."""

    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class AsyncManager:
    """Runs coroutines on an event loop like the server's."""

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Run the coroutine on an event loop of its own; returns its result."""
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(coro)
