"""Enforces limits and writes audit records for calls and other operations.

A server without keys, an audit log or trusted gateways has no `Metering`.
"""

from collections.abc import Awaitable, Callable
from time import time
from typing import Any, TypeVar
from weakref import ref

from inferstream.errors import Code, InferstreamError, own_status
from inferstream.ext.calls import (
    Call,
    Caller,
    Handler,
    Operation,
    Reply,
    Watcher,
    count_tokens,
    request_id_var,
)
from inferstream.ext.http import HTTP_OF_GRPC
from inferstream.ext.http import STATUSES as TABLE
from inferstream.ext.telemetry import kind_of_end, mask_keys
from inferstream.types import InferenceResponse, Parameters

from .audit import AuditLog, AuditRecord
from .errors import LimitExceeded
from .principal import Principal
from .proxies import Proxies
from .quotas import MeteredUse, Quotas
from .shares import SHARE, Share, shared_priority

Result = TypeVar("Result")

STATUSES = {code: status.http for code, status in TABLE.items()} | {
    Code.ALREADY_EXISTS: HTTP_OF_GRPC["ALREADY_EXISTS"]
}
"""HTTP statuses of error codes, for audit records."""

STREAM = Operation.STREAM


class Metering:
    """Counts usage and writes one audit record per operation, completed or denied."""

    def __init__(self, quotas: Quotas, audit: AuditLog | None, proxies: Proxies) -> None:
        self.quotas = quotas
        self.receive, self.create_use = quotas.receive, quotas.create_use
        self.audit = audit
        self._proxies = proxies
        self.nobody = Principal("", "", (), ())
        """The principal of clients that do not need a key."""

    async def open(
        self,
        handler: Handler,
        call: Call,
        caller: Caller,
        size: int,
        key: Principal | None,
        priority: int,
    ) -> Reply:
        """Open a call whose request has `size` bytes. `priority` is the model's default.

        Raises LimitExceeded or the handler's errors.
        """
        rank = 0
        picked: Any = caller.picked
        if key is None:
            key = self.nobody
        elif call.priority or key.best_priority:
            rank = call.priority or priority
            granted = (picked and picked.priority) or key.best_priority
            call.priority = shared_priority(rank, granted, priority)
        call.priority = call.priority or priority
        share = Share(key.name if picked is None else picked.fairness_id or key.name, rank)
        SHARE.set(call, share)
        use: MeteredUse | None = None
        try:
            stream = call.operation is STREAM
            use = self.quotas.begin(key, stream, 0 if stream else 1, size)
            reply = await handler(call)
            if not reply.single:
                try:
                    kind = _UseOfStream if use.unlimited else _LimitedUseOfStream
                    return reply.watch(kind(self, use, share, call, caller, reply.parameters))
                except LimitExceeded as error:
                    await reply.aclose(error)
                    raise
        except BaseException as error:  # Cancelled calls are also counted and recorded.
            tokens = 0 if use is None else use.tokens
            if use is not None:
                use.end()
            share.end(tokens)
            _record(self, call, caller, key, tokens, 0 if use is None else size, error)
            raise
        tokens = count_tokens(reply.parameters, 1)
        use.end(tokens)
        share.end(tokens)
        if self.audit is not None:
            _record(self, call, caller, key, tokens, size, None)
        return reply

    async def run(
        self, operation: str, caller: Caller, model: str, size: int, work: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Run an operation other than an inference. Raises LimitExceeded or the errors of `work`."""
        key: Any = caller.key
        use: MeteredUse | None = None
        failure: BaseException | None = None
        try:
            use = self.quotas.begin(key or self.nobody, False, 0, size)
            return await work()
        except BaseException as error:
            failure = error
            raise
        finally:
            if use is not None:
                use.end()
            self.record(operation, caller, key, model, "", "", 0, 0 if use is None else size, failure)
            del failure  # Breaks the reference cycle: the traceback refers to this frame.

    def record_rejection(self, operation: str, caller: Caller, model: str, error: BaseException) -> None:
        """Record a request that was rejected before it became a call. Each error is recorded once."""
        if caller.told is None or caller.told() is not error:
            key: Any = caller.key
            self.record(operation, caller, key, model, "", "", 0, 0, error)

    def record(
        self,
        operation: str,
        caller: Caller,
        key: Principal | None,
        model: str,
        version: str,
        request_id: str,
        tokens: int,
        size: int,
        error: BaseException | None,
    ) -> None:
        """Write an audit record.

        `size` is in bytes, and `key` is the principal at the start of the operation.
        """
        if self.audit is None:
            return
        if isinstance(error, InferstreamError):
            caller.told = ref(error)
        self.audit.put(
            AuditRecord(
                time(),
                None if key is None else key.name,
                None if key is None else key.key,
                self._proxies.find_client(caller.headers),
                caller.door,
                caller.dialect,
                operation,
                mask_keys(model),
                version,
                request_id_var.get() or mask_keys(request_id),
                tokens,
                size,
                200 if error is None else _status(error),
                kind_of_end(error),
            )
        )


def _status(error: BaseException) -> int:
    if not isinstance(error, InferstreamError):
        return 500 if isinstance(error, Exception) else 499
    return own_status(error) or STATUSES[error.code]


class _UseOfStream(Watcher):
    """Counts the responses of a stream without token limits."""

    __slots__ = ("_call", "_caller", "_first", "_last", "_metering", "_share", "_tokens", "_use")

    def __init__(
        self,
        metering: Metering,
        use: MeteredUse,
        share: Share,
        call: Call,
        caller: Caller,
        first: Parameters | None,
    ) -> None:
        self._metering = metering
        self._use = use
        self._share = share
        self._call = call
        self._caller = caller
        self._tokens = 0
        self._first = first
        self._last: InferenceResponse | None = None

    def item(self, response: InferenceResponse) -> None:
        self._tokens += 1
        self._last = response

    def end(self, error: BaseException | None) -> None:
        use, last = self._use, self._last
        use.tokens += self._tokens
        use.end(count_tokens(None if last is None else last.parameters, use.tokens, self._first))
        self._share.end(use.tokens)
        _record(self._metering, self._call, self._caller, use.principal, use.tokens, use.bytes, error)


class _LimitedUseOfStream(_UseOfStream):
    """Counts each response of a stream against the token limits before it is sent."""

    __slots__ = ()

    def item(self, response: InferenceResponse) -> None:
        """Count a response. Raises LimitExceeded, which the reader receives instead of the response."""
        self._use.charge()
        self._last = response


def _record(
    metering: Metering,
    call: Call,
    caller: Caller,
    key: Principal,
    tokens: int,
    size: int,
    error: BaseException | None,
) -> None:
    operation = "stream" if call.operation is STREAM else "infer"
    version, request_id = call.version or "", call.request.id or ""
    known = None if key is metering.nobody else key
    metering.record(operation, caller, known, call.model, version, request_id, tokens, size, error)
