"""The base class of models, and functions for runtimes: ids, headers, routes and coroutines."""

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


class MLModel(inferstream.MLModel):
    """The base class of models. It may ignore a request's `outputs`, as in MLServer."""

    selects_outputs = None
    for_mlserver = True


HANDLER_ATTRIBUTE = "__custom_handler__"
"""The attribute of methods that serve a route."""


class CustomHandler(NamedTuple):
    """A custom route of a model: a path, which may hold `{parameters}`, and an HTTP method."""

    rest_path: str
    rest_method: str = "POST"


def get_custom_handlers(model: object) -> list[tuple[CustomHandler, Callable[..., Any]]]:
    """The custom routes of a model or its class, and their methods."""
    return [(CustomHandler(*handler), method) for handler, method in handlers_of(model)]


def register_custom_handler(handler: CustomHandler, method: Callable[..., Any]) -> None:
    """Serve the route `handler` by a method of a model."""
    custom_handler(*handler)(method)


def generate_uuid() -> str:
    return str(uuid.uuid4())


def get_wrapped_method(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function without its decorators."""
    method: Callable[..., Any] = unwrap(f)
    return method


def insert_headers(inference_request: InferenceRequest, headers: dict[str, str]) -> InferenceRequest:
    """Put transport headers into a request's parameters."""
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
    """A task that calls `cb` at its end."""
    task = asyncio.create_task(coro)
    task.add_done_callback(cb)
    return task


def install_uvloop_event_loop() -> None:
    """Make new event loops those of uvloop, if it is installed. The server needs no call of this."""
    with suppress(ImportError):
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


class EventLoopBackend(Enum):
    """The event loops."""

    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


class AsyncManager:
    """Runs coroutines on an event loop like the server's."""

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Run the coroutine on a new event loop and return its result."""
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(coro)
