"""`EngineTarget`: one engine, the connections to it, and what it reports."""

import contextlib
from collections.abc import AsyncIterator
from itertools import cycle
from typing import Any

from inferstream.errors import DeadlineExceeded, InferstreamError, InvalidRequest, ModelError, Overloaded
from inferstream.ext.telemetry import get_logger

from . import protos
from .rpc.call import MAX_MESSAGE_BYTES, Call
from .rpc.channel import Channel, Method
from .rpc.status import CallFailed, Code

logger = get_logger("runtimes")

SERVICE = "/vllm.grpc.engine.VllmEngine/"

CHECK_TIMEOUT_SECONDS = 5.0

PATIENCE = 3
"""Number of failed checks in a row after which the calls of an engine are given up."""

MAX_REASON_LENGTH = 500

GENERATE = Method(f"{SERVICE}Generate", protos.Generate.SerializeToString, protos.Generated.FromString)

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
    """An engine at `address`."""

    def __init__(self, address: str, connections: int) -> None:
        self.address = address
        self.healthy = False
        self.failures = 0
        """Number of failed checks in a row."""
        self.kv_usage: float | None = None
        """Mean fraction of its KV caches in use, one for each data-parallel rank."""
        self.calls: set[Call] = set()
        """Generate calls in progress."""
        self._channels = [Channel(address) for _ in range(connections)]
        self._next = cycle(self._channels)

    @property
    def label(self) -> str:
        """The address without folders, for messages."""
        return self.address.rpartition("/")[2]

    async def generate(self, request: Any, timeout: float | None) -> Call:
        """Start a call on the next connection. Raises CallFailed."""
        call = await next(self._next).start(GENERATE, request, timeout)
        self.calls.add(call)
        return call

    async def ask(self, rpc: str, reply: Any) -> Any:
        """Call an RPC without arguments. Raises EngineLost, ProtocolMismatch or InferstreamError."""
        messages = [each async for each in self._read(rpc, reply, CHECK_TIMEOUT_SECONDS)]
        if len(messages) != 1:
            raise ModelError(f"it sends {len(messages)} responses to {rpc}")
        return messages[0]

    async def read_tokenizer(self) -> tuple[bytes, str]:
        """Return the archive of tokenizer files, and its digest. Raises as `ask`."""
        parts, size, digest = [], 0, ""
        async for part in self._read("GetTokenizer", protos.TokenizerPart, 6 * CHECK_TIMEOUT_SECONDS):
            size += len(part.data)
            if size > MAX_MESSAGE_BYTES * 4:
                raise ModelError("the archive of the tokenizer is too large")
            parts.append(part.data)
            digest = part.sha256 or digest
        return b"".join(parts), digest

    async def _read(self, rpc: str, reply: Any, timeout: float) -> AsyncIterator[Any]:
        """Yield the responses of an RPC without arguments."""
        method = Method(SERVICE + rpc, protos.Empty.SerializeToString, reply.FromString)
        try:
            call = await self._channels[0].start(method, protos.Empty(), timeout)
            try:
                while (message := await call.read()) is not None:
                    yield message
            finally:
                call.cancel()
        except CallFailed as error:
            raise _translate_check(error) from None

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
            call.cancel(EngineLost("it is not healthy"))

    def close(self) -> None:
        self.end_calls()
        for channel in self._channels:
            channel.close()


def clean(reason: str | None) -> str:
    """Return the first line of a message from an engine, shortened."""
    return (reason or "").strip().partition("\n")[0][:MAX_REASON_LENGTH].rstrip(".")


def _translate_check(error: CallFailed) -> Exception:
    if error.code is Code.UNIMPLEMENTED:
        return ProtocolMismatch(clean(error.reason))
    if error.code in LOST or error.code is Code.DEADLINE_EXCEEDED:
        return _report_loss(error)
    return ModelError(clean(error.reason) or error.code.name)


def _report_loss(error: CallFailed) -> EngineLost:
    """Log the reason, which may contain addresses, and return the error without it."""
    logger.debug("engine lost: %s", error)
    return EngineLost("it does not answer" if error.code is Code.DEADLINE_EXCEEDED else "no connection")


def translate_error(error: CallFailed, model: str) -> Exception:
    """Return the error for a failed call: EngineLost, or an error for the client."""
    code, reason = error.code, clean(error.reason)
    if code in LOST:
        return _report_loss(error)
    if code in CLIENT:
        return InvalidRequest(f"The engine of model {model} does not accept the request: {reason}.")
    if code is Code.DEADLINE_EXCEEDED:
        return DeadlineExceeded()
    if code is Code.RESOURCE_EXHAUSTED:
        return Overloaded(f"The engine of model {model} has no room for the request.")
    logger.error("model %s: its engine failed with %s: %s", model, code.name, error.reason)
    return ModelError(f"The engine of model {model} failed; the server's log says why.", 500)
