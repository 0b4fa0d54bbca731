"""`EngineTarget`: one engine, the connections to it, and what it reports."""

import asyncio
import contextlib
from itertools import cycle
from typing import Any

import grpc

from inferstream.errors import DeadlineExceeded, InferstreamError, InvalidRequest, ModelError, Overloaded
from inferstream.ext.telemetry import get_logger

from . import protos

logger = get_logger("runtimes")

SERVICE = "/vllm.grpc.engine.VllmEngine/"

CHECK_TIMEOUT_SECONDS = 5.0

PATIENCE = 3
"""Number of failed checks in a row after which the calls of an engine are given up."""

MAX_MESSAGE_BYTES = 1 << 26

MAX_REASON_LENGTH = 500

OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),  # otherwise all channels share one connection
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    ("grpc.enable_retries", 0),
]

Code = grpc.StatusCode
LOST = frozenset((Code.UNAVAILABLE, Code.CANCELLED))
"""Statuses that an engine that exits leaves behind."""

CLIENT = frozenset((Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.OUT_OF_RANGE, Code.FAILED_PRECONDITION))
"""Statuses for requests that the engine rejects."""


class EngineLost(Exception):
    """The engine exited, is unhealthy or cannot be reached."""


class EngineSick(EngineLost):
    """The engine says that it is not healthy."""


class ProtocolMismatch(Exception):
    """The peer does not serve the protocol."""


class EngineTarget:
    """An engine at `address`. Must be created on the event loop that uses it."""

    def __init__(self, address: str, connections: int) -> None:
        self.address = address
        self.healthy = False
        self.failures = 0
        """Number of failed checks in a row."""
        self.kv_usage: float | None = None
        """Mean fraction of its KV caches in use, one for each data-parallel rank."""
        self.calls: set[Any] = set()
        """Generate calls in progress. A call that is cancelled because the engine is lost is not among them."""
        self._channels = [grpc.aio.insecure_channel(address, OPTIONS) for _ in range(connections)]
        write, read = protos.Generate.SerializeToString, protos.Generated.FromString
        rpcs = [each.unary_stream(f"{SERVICE}Generate", write, read) for each in self._channels]
        self._rpcs = cycle(rpcs)

    @property
    def label(self) -> str:
        """The address without folders, for messages."""
        return self.address.rpartition("/")[2]

    def generate(self, request: Any, timeout: float | None) -> Any:
        """Start a call on the next connection."""
        call = next(self._rpcs)(request, timeout=timeout)
        self.calls.add(call)
        return call

    async def ask(self, rpc: str, reply: Any) -> Any:
        """Call an RPC without arguments. Raises EngineLost, ProtocolMismatch or InferstreamError."""
        call = self._channels[0].unary_unary(SERVICE + rpc, protos.Empty.SerializeToString, reply.FromString)
        try:
            return await call(protos.Empty(), timeout=CHECK_TIMEOUT_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise _translate_check(error) from None

    async def read_tokenizer(self) -> tuple[bytes, str]:
        """Return the archive of tokenizer files, and its digest. Raises as `ask`."""
        call = self._channels[0].unary_stream(
            f"{SERVICE}GetTokenizer", protos.Empty.SerializeToString, protos.TokenizerPart.FromString
        )
        parts, size, digest = [], 0, ""
        try:
            async for part in call(protos.Empty(), timeout=6 * CHECK_TIMEOUT_SECONDS):
                size += len(part.data)
                if size > MAX_MESSAGE_BYTES * 4:
                    raise ModelError("the archive of the tokenizer is too large")
                parts.append(part.data)
                digest = part.sha256 or digest
        except grpc.aio.AioRpcError as error:
            raise _translate_check(error) from None
        return b"".join(parts), digest

    async def check(self) -> None:
        """Read the load of the engine. Raises EngineLost or ProtocolMismatch unless it is healthy."""
        health = await self.ask("HealthCheck", protos.Health)
        if not health.healthy:
            raise EngineSick(f"it is not healthy: {clean(health.message)}")
        with contextlib.suppress(EngineLost, ProtocolMismatch, InferstreamError):  # the load is optional
            loads = (await self.ask("GetLoads", protos.Loads)).loads
            self.kv_usage = sum(each.token_usage for each in loads) / len(loads) if loads else None

    @property
    def is_given_up(self) -> bool:
        return self.failures >= PATIENCE

    def end_calls(self) -> None:
        """End all calls in progress with EngineLost."""
        calls, self.calls = self.calls, set()
        for call in calls:
            call.cancel()

    async def close(self) -> None:
        self.end_calls()
        await asyncio.gather(*(each.close(None) for each in self._channels))


def clean(reason: str | None) -> str:
    """Return the first line of a message from an engine, shortened."""
    return (reason or "").strip().partition("\n")[0][:MAX_REASON_LENGTH].rstrip(".")


def _translate_check(error: Any) -> Exception:
    if error.code() is Code.UNIMPLEMENTED:
        return ProtocolMismatch(clean(error.details()))
    if error.code() in LOST or error.code() is Code.DEADLINE_EXCEEDED:
        return _report_loss(error)
    return ModelError(clean(error.details()) or error.code().name)


def _report_loss(error: Any) -> EngineLost:
    """Log the details, which contain addresses, and return the error without them."""
    logger.debug("engine lost: %s: %s", error.code().name, error.details())
    return EngineLost("it does not answer" if error.code() is Code.DEADLINE_EXCEEDED else "no connection")


def translate_error(error: Any, model: str) -> Exception:
    """Return the error for a failed call: EngineLost, or an error for the client."""
    code, reason = error.code(), clean(error.details())
    if code in LOST:
        return _report_loss(error)
    if code in CLIENT:
        return InvalidRequest(f"The engine of model {model} does not accept the request: {reason}.")
    if code is Code.DEADLINE_EXCEEDED:
        return DeadlineExceeded()
    if code is Code.RESOURCE_EXHAUSTED:
        return Overloaded(f"The engine of model {model} has no room for the request.")
    logger.error("model %s: its engine failed with %s: %s", model, code.name, error.details())
    return ModelError(f"The engine of model {model} failed; the server's log says why.", 500)
