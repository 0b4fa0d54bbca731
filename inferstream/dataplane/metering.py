"""The limits of keys around a call, and its audit record. Calls without a key never come here."""

from time import time

from ..context import request_id_var
from ..errors import Code, InferstreamError, own_status
from ..keys.audit import AuditRecord
from ..keys.errors import LimitExceeded
from ..keys.quotas import MeteredUse
from ..types import InferenceResponse
from .call import Call, Operation
from .caller import Caller, Grant
from .handler import Handler
from .reply import Reply, Watcher
from .stages.metrics import kind_of

STATUSES = {
    Code.INVALID: 400,
    Code.TOO_LARGE: 413,
    Code.NOT_FOUND: 404,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_READY: 503,
    Code.OVERLOADED: 429,
    Code.DEADLINE_EXCEEDED: 504,
    Code.WORKER_LOST: 503,
    Code.DRAINING: 503,
    Code.CANCELLED: 499,
    Code.UNSUPPORTED: 501,
}
"""HTTP statuses of the ends of calls, in audit records; 500 for others."""


async def metered(handler: Handler, call: Call, caller: Caller, grant: Grant) -> Reply:
    """Open a call within the limits of its key. Raises LimitExceeded, and the errors of the handler."""
    use: MeteredUse | None = None
    try:
        stream = call.operation is Operation.STREAM
        size = caller.headers.get("content-length", "") if grant.principal.byte_limit else ""
        use = grant.keys.quotas.begin(
            grant.principal, stream=stream, tokens=0, size=int(size) if size.isdecimal() else 0
        )
        reply = await handler(call)
        if not reply.single:
            try:
                return reply.watch(_UseOfStream(use, call, caller, grant))
            except LimitExceeded as error:
                await reply.aclose(error)
                raise
    except BaseException as error:  # a cancelled call has ended too
        _end(use, call, caller, grant, error)
        raise
    use.end(1)
    _audit(use, call, caller, grant, None)
    return reply


class _UseOfStream(Watcher):
    """Counts the items of a stream before its reader gets them."""

    __slots__ = ("_call", "_caller", "_grant", "_use")

    def __init__(self, use: MeteredUse, call: Call, caller: Caller, grant: Grant) -> None:
        self._use = use
        self._call = call
        self._caller = caller
        self._grant = grant

    def item(self, response: InferenceResponse) -> None:
        """Raise LimitExceeded, which the reader gets in place of the response."""
        self._use.charge()

    def end(self, error: BaseException | None) -> None:
        _end(self._use, self._call, self._caller, self._grant, error)


def _end(
    use: MeteredUse | None, call: Call, caller: Caller, grant: Grant, error: BaseException | None
) -> None:
    if use is not None:
        use.end()
    _audit(use, call, caller, grant, error)


def _audit(
    use: MeteredUse | None, call: Call, caller: Caller, grant: Grant, error: BaseException | None
) -> None:
    audit = grant.keys.audit
    if audit is None:
        return
    audit.put(
        AuditRecord(
            time(),
            grant.principal.name,
            grant.principal.key,
            caller.peer,
            caller.door,
            caller.dialect,
            "stream" if call.operation is Operation.STREAM else "infer",
            call.model,
            call.version or "",
            request_id_var.get() or call.request.id or "",
            0 if use is None else use.tokens,
            0 if use is None else use.bytes,
            200 if error is None else _status(error),
            "success" if error is None else kind_of(error),
        )
    )


def _status(error: BaseException) -> int:
    if not isinstance(error, InferstreamError):
        return 500 if isinstance(error, Exception) else 499
    return own_status(error) or STATUSES.get(error.code, 500)
