"""The model base class, and functions that MLServer runtimes use: ids, headers, routes and coroutines."""

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import Enum
from inspect import unwrap
from typing import Any, NamedTuple

import inferstream
from inferstream import custom_handler
from inferstream.ext.hosting import new_event_loop
from inferstream.ext.runtimes import get_custom_handlers as handlers_of
from inferstream.types import InferenceRequest, InferenceResponse, Parameters

from .names import VERSION


class MLModel(inferstream.MLModel):
    """The base class of models. As in MLServer, a model may ignore a request's `outputs`."""

    selects_outputs = None
    for_mlserver = True


HANDLER_ATTRIBUTE = "__custom_handler__"
"""The attribute that marks the handler methods of custom routes."""


class CustomHandler(NamedTuple):
    """A custom route of a model: a path, which can contain `{parameters}`, and an HTTP method."""

    rest_path: str
    rest_method: str = "POST"


def get_custom_handlers(model: object) -> list[tuple[CustomHandler, Callable[..., Any]]]:
    """Return the custom routes of a model or its class, with their methods."""
    return [(CustomHandler(*handler), method) for handler, method in handlers_of(model)]


def register_custom_handler(handler: CustomHandler, method: Callable[..., Any]) -> None:
    """Serve the route `handler` with a method of a model."""
    custom_handler(*handler)(method)


def generate_uuid() -> str:
    return str(uuid.uuid4())


def get_normalized_version(version: str | None = None) -> str:
    """Return a version without its local part, such as `+build.1`. The default is the MLServer version."""
    return (version or VERSION).partition("+")[0]


def get_wrapped_method(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the undecorated function."""
    method: Callable[..., Any] = unwrap(f)
    return method


def insert_headers(inference_request: InferenceRequest, headers: dict[str, str]) -> InferenceRequest:
    """Store transport headers in a request's parameters."""
    if inference_request.parameters is None or "parameters" not in inference_request.model_fields_set:
        inference_request.parameters = Parameters()
    inference_request.parameters.headers = headers
    return inference_request


def extract_headers(inference_response: InferenceResponse) -> dict[str, Any] | None:
    """Remove transport headers from a response's parameters and return them."""
    parameters = inference_response.parameters
    if parameters is None or parameters.headers is None:
        return None
    headers, parameters.headers = dict(parameters.headers), None
    return headers


def schedule_with_callback(
    coro: Coroutine[Any, Any, Any], cb: Callable[["asyncio.Task[Any]"], object]
) -> "asyncio.Task[Any]":
    """Create a task that calls `cb` when it is done."""
    task = asyncio.create_task(coro)
    task.add_done_callback(cb)
    return task


def install_uvloop_event_loop() -> None:
    """Use uvloop for new event loops if it is installed. The server does not need this call."""
    with suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


class EventLoopBackend(Enum):
    """Event loop implementations."""

    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class AsyncManager:
    """Runs coroutines on the same kind of event loop as the server."""

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on a new event loop and return its result."""
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(coro)
