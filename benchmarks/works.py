"""What is measured beside its floor: the rows of the tables."""

from collections.abc import Callable, Coroutine
from typing import NamedTuple

import numpy as np

from . import load, rpc_load

CALLERS = 32
SMALL = np.array([[1.5, 2.5, 3.5, 4.5]], np.float32)
IMAGE = np.random.default_rng(0).random((1, 3, 224, 224), np.float32)
LARGE = np.random.default_rng(0).random((4, 1024, 1024), np.float32)


class Work(NamedTuple):
    name: str
    unit: str
    transport: str
    bare: str
    """The kind of bare server that does the same; empty where another row is the measure."""
    goal: float
    """The server's CPU at most, as a multiple of the bare server's."""
    run: Callable[[int, float], Coroutine[None, None, int]]
    """Puts load on a port for so many seconds; returns how many units were done."""
    elsewhere: bool = True
    """Whether MLServer can do it, too."""
    quick: bool = False
    litserve: bool = False
    """Whether LitServe's OpenAI spec does it."""
    framework: str = ""
    """The kind of server that does the same by FastAPI, if that is measured."""

    def kind(self, target: str) -> str:
        """Which of the ports of the server of this name does it; empty for none."""
        if target == "LitServe":
            return "chat" if self.litserve else ""
        return {"bare": self.bare, "FastAPI": self.framework}.get(target, self.transport)


class Paced(NamedTuple):
    """Streams of a token each 10 ms."""

    name: str
    transport: str
    bare: str
    run: Callable[[int, int, float], Coroutine[None, None, tuple[float, list[float]]]]
    """Opens so many streams at a port for so many seconds; returns tokens a second and the gaps between them."""
    first: bool = False
    """Whether the time to the first event of its kind is measured, too."""


def _paced(request: bytes):
    return lambda port, streams, seconds: load.paced(port, streams, seconds, request)


RESPONSES = Paced("SSE, responses of a class", "rest", "rest", _paced(load.PACED), first=True)
TEXTS = Paced("SSE, `str` of a class", "rest", "rest", _paced(load.PACED_TEXT))
FUNCTION = Paced("SSE, `str` of a function", "functions", "rest", _paced(load.PACED), first=True)
MESSAGES = Paced("gRPC, responses of a class", "grpc", "grpc", rpc_load.paced)
PACED = (RESPONSES, TEXTS, FUNCTION, MESSAGES)


def _tensor(function: Callable[..., Coroutine[None, None, int]], array: np.ndarray, callers: int):
    return lambda port, seconds: function(port, array, callers, seconds)


def _calls(calls: rpc_load.Calls, connections: int, callers: int, changing: bool = False):
    return lambda port, seconds: rpc_load.run_calls(port, calls, connections, callers, seconds, changing)


WORKS = (
    Work(
        "REST infer, FP32 [1,4]",
        "request",
        "rest",
        "rest",
        1.6,
        lambda port, seconds: load.rest_infer(port, CALLERS, seconds),
        quick=True,
        framework="fastapi",
    ),
    Work(
        "gRPC infer, FP32 [1,4], typed",
        "request",
        "grpc",
        "grpc",
        1.1,
        lambda port, seconds: load.grpc_infer(port, CALLERS, seconds),
        quick=True,
    ),
    Work(
        "gRPC infer, FP32 [1,4], raw",
        "request",
        "grpc",
        "grpc",
        1.1,
        lambda port, seconds: load.grpc_raw(port, SMALL, CALLERS, seconds, "doubler"),
    ),
    Work(
        "SSE, 256 tokens",
        "token",
        "rest",
        "rest",
        1.0,
        lambda port, seconds: load.sse_tokens(port, CALLERS, seconds),
        quick=True,
    ),
    Work(
        "SSE, 256 tokens of a function",
        "token",
        "functions",
        "rest",
        1.15,
        lambda port, seconds: load.sse_tokens(port, CALLERS, seconds),
        elsewhere=False,
        quick=True,
    ),
    Work(
        "REST infer of a function, two numbers",
        "request",
        "functions",
        "rest",
        1.5,
        lambda port, seconds: load.rest_infer(port, CALLERS, seconds, load.ADD),
        elsewhere=False,
        quick=True,
    ),
    Work(
        "gRPC infer of a function, two numbers, V2",
        "request",
        "functions-grpc",
        "",
        1.0,
        lambda port, seconds: load.grpc_add(port, CALLERS, seconds, typed=False),
        elsewhere=False,
        quick=True,
    ),
    Work(
        "gRPC infer of a function, two numbers, typed",
        "request",
        "functions-grpc",
        "",
        1.0,
        lambda port, seconds: load.grpc_add(port, CALLERS, seconds, typed=True),
        elsewhere=False,
        quick=True,
    ),
    Work(
        "chat completions, 256 tokens",
        "token",
        "rest",
        "rest",
        1.3,
        lambda port, seconds: load.chat_tokens(port, CALLERS, seconds),
        elsewhere=False,
        quick=True,
        litserve=True,
    ),
    Work(
        "gRPC stream, 256 messages",
        "message",
        "grpc",
        "grpc",
        1.15,
        lambda port, seconds: load.grpc_tokens(port, CALLERS, seconds),
        quick=True,
    ),
    Work(
        "gRPC small, 32 callers on 4 connections",
        "request",
        "grpc",
        "grpc",
        0.35,
        _calls(rpc_load.INFER, 4, CALLERS),
        quick=True,
    ),
    Work(
        "gRPC small, headers new on every call",
        "request",
        "grpc",
        "grpc",
        0.55,
        _calls(rpc_load.INFER, 4, CALLERS, changing=True),
    ),
    Work("gRPC small, one caller", "request", "grpc", "grpc", 0.5, _calls(rpc_load.INFER, 1, 1)),
    Work(
        "gRPC stream message, 32 streams of 256",
        "message",
        "grpc",
        "grpc",
        0.5,
        _calls(rpc_load.STREAM, 4, CALLERS),
        quick=True,
    ),
    Work(
        "REST JSON, FP32 [1,3,224,224]",
        "tensor",
        "rest",
        "rest",
        0.5,
        _tensor(load.rest_json, IMAGE, 4),
        quick=True,
    ),
    Work("REST JSON, 16 MB of FP32", "tensor", "rest", "rest", 0.5, _tensor(load.rest_json, LARGE, 1)),
    Work(
        "REST binary, FP32 [1,3,224,224]",
        "tensor",
        "rest",
        "rest",
        1.3,
        _tensor(load.rest_binary, IMAGE, 4),
        elsewhere=False,
    ),
    Work(
        "REST binary, 16 MB of FP32",
        "tensor",
        "rest",
        "rest",
        1.3,
        _tensor(load.rest_binary, LARGE, 1),
        elsewhere=False,
    ),
    Work(
        "gRPC raw, FP32 [1,3,224,224]",
        "tensor",
        "grpc",
        "grpc-sync",
        1.2,
        _tensor(load.grpc_raw, IMAGE, 4),
    ),
    Work(
        "gRPC raw 600 KB, a bare server only for this",
        "tensor",
        "grpc",
        "grpc-sync-600",
        0.5,
        _tensor(load.grpc_raw, IMAGE, 4),
        elsewhere=False,
    ),
    Work("gRPC raw, 16 MB of FP32", "tensor", "grpc", "grpc-sync", 1.2, _tensor(load.grpc_raw, LARGE, 1)),
    Work(
        "gRPC with 16 MB in shared memory, the bare server raw",
        "tensor",
        "grpc",
        "grpc-sync",
        0.25,
        _tensor(load.grpc_shared, LARGE, 1),
        elsewhere=False,
    ),
)
