"""`EngineTarget`: one engine, the connections to it, and what it reports."""

import asyncio
from collections.abc import AsyncIterator
from itertools import cycle
from typing import Any

from inferstream.errors import DeadlineExceeded, InvalidRequest, ModelError, Overloaded
from inferstream.ext.telemetry import get_logger

from .protocols.base import EngineClient, EngineLost, EngineProtocol, ProtocolMismatch, shorten
from .rpc.call import RpcCall
from .rpc.channel import RpcChannel, RpcMethod
from .rpc.status import RpcError, RpcStatus

logger = get_logger("runtimes")

CHECK_TIMEOUT_SECONDS = 5.0

PATIENCE = 3
"""Number of failed checks in a row after which the calls of an engine are given up."""

LOST = frozenset((RpcStatus.UNAVAILABLE, RpcStatus.CANCELLED))
"""Statuses that an engine that exits leaves behind."""

CLIENT = frozenset(
    (RpcStatus.INVALID_ARGUMENT, RpcStatus.NOT_FOUND, RpcStatus.OUT_OF_RANGE, RpcStatus.FAILED_PRECONDITION)
)
"""Statuses for requests that the engine rejects."""


class EngineTarget(EngineClient):
    """An engine at `address`."""

    def __init__(self, address: str, connections: int, protocol: EngineProtocol) -> None:
        self.address = address
        self.healthy = False
        self.failures = 0
        """Number of failed checks in a row."""
        self.kv_usage = None
        self.calls: set[RpcCall] = set()
        """Calls in progress that generate text."""
        self._protocol = protocol
        self._channels = [RpcChannel(address) for _ in range(connections)]
        self._next = cycle(self._channels)
        self._aborts: set[asyncio.Task[None]] = set()

    @property
    def label(self) -> str:
        """The address without folders, for messages."""
        return self.address.rpartition("/")[2]

    async def generate(self, method: RpcMethod, request: Any, timeout: float | None) -> RpcCall:
        """Start a call on the next connection. Raises RpcError."""
        call = await next(self._next).start(method, request, timeout)
        self.calls.add(call)
        return call

    def end(self, call: RpcCall, identifier: str, is_complete: bool) -> None:
        """End a call, for the engine too. `is_complete`: whether it has reported the end of the text."""
        self.calls.discard(call)
        call.cancel()
        if self._protocol.abort_path and call.was_abandoned and not is_complete:
            task = asyncio.get_running_loop().create_task(self._abort(identifier))
            self._aborts.add(task)
            task.add_done_callback(self._aborts.discard)

    async def _abort(self, identifier: str) -> None:
        path, request = self._protocol.abort_path, self._protocol.build_abort(identifier)
        try:
            await self.ask(RpcMethod(path, type(request).SerializeToString, bytes), request)
        except (EngineLost, ProtocolMismatch, ModelError) as error:
            logger.warning("the engine at %s may still work on a cancelled request: %s", self.address, error)

    async def ask(self, method: RpcMethod, request: Any) -> Any:
        messages = [each async for each in self.read(method, request, CHECK_TIMEOUT_SECONDS)]
        if len(messages) != 1:
            raise ModelError(f"it sends {len(messages)} responses to {method.path}")
        return messages[0]

    async def read(self, method: RpcMethod, request: Any, timeout: float) -> AsyncIterator[Any]:
        try:
            call = await self._channels[0].start(method, request, timeout)
            try:
                while (message := await call.read()) is not None:
                    yield message
            finally:
                call.cancel()
        except RpcError as error:
            raise _translate_check(error) from None

    async def check(self) -> None:
        """Read the load of the engine. Raises EngineLost or ProtocolMismatch unless it is healthy."""
        self.kv_usage = await self._protocol.check(self)

    @property
    def is_given_up(self) -> bool:
        return self.failures >= PATIENCE

    def end_calls(self) -> None:
        """End all calls in progress with EngineLost."""
        calls, self.calls = self.calls, set()
        for call in calls:
            call.cancel(EngineLost("it is not healthy"))

    async def close(self) -> None:
        self.end_calls()
        await asyncio.gather(*self._aborts)
        for channel in self._channels:
            channel.close()


def _translate_check(error: RpcError) -> Exception:
    if error.code is RpcStatus.UNIMPLEMENTED:
        return ProtocolMismatch(shorten(error.reason))
    if error.code in LOST or error.code is RpcStatus.DEADLINE_EXCEEDED:
        return _report_loss(error)
    return ModelError(shorten(error.reason) or error.code.name)


def _report_loss(error: RpcError) -> EngineLost:
    """Log the reason, which may contain addresses, and return the error without it."""
    logger.debug("engine lost: %s", error)
    return EngineLost("it does not answer" if error.code is RpcStatus.DEADLINE_EXCEEDED else "no connection")


def translate_error(error: RpcError, model: str) -> Exception:
    """Return the error for a failed call: EngineLost, or an error for the client."""
    code, reason = error.code, shorten(error.reason)
    if code in LOST:
        return _report_loss(error)
    if code in CLIENT:
        return InvalidRequest(f"The engine of model {model} does not accept the request: {reason}.")
    if code is RpcStatus.DEADLINE_EXCEEDED:
        return DeadlineExceeded()
    if code is RpcStatus.RESOURCE_EXHAUSTED:
        return Overloaded(f"The engine of model {model} has no room for the request.")
    logger.error("model %s: its engine failed with %s: %s", model, code.name, error.reason)
    return ModelError(f"The engine of model {model} failed; the server's log says why.", 500)
