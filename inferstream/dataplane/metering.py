"""The limits of keys around a call, and its audit record. Calls without a key never come here."""

from time import time

from ..context import request_id_var
from ..errors import Code, InferstreamError, own_status
from ..keys.audit import AuditRecord
from ..keys.errors import LimitExceeded
from ..keys.quotas import MeteredUse
from ..text.usage import usage_of
from ..types import InferenceResponse, Parameters
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
    use.end(_tokens(None if reply.first is None else reply.first.parameters, 1))
    _audit(use, call, caller, grant, None)
    return reply


class _UseOfStream(Watcher):
    """Counts the items of a stream before its reader gets them."""

    __slots__ = ("_call", "_caller", "_grant", "_parameters", "_use")

    def __init__(self, use: MeteredUse, call: Call, caller: Caller, grant: Grant) -> None:
        self._use = use
        self._call = call
        self._caller = caller
        self._grant = grant
        self._parameters: Parameters | None = None

    def item(self, response: InferenceResponse) -> None:
        """Raise LimitExceeded, which the reader gets in place of the response."""
        self._use.charge()
        self._parameters = response.parameters

    def end(self, error: BaseException | None) -> None:
        self._use.end(_tokens(self._parameters, self._use.tokens))
        _end(self._use, self._call, self._caller, self._grant, error)


def _tokens(last: Parameters | None, items: int) -> int:
    """Tokens of a call by the parameters of its last response: those of the prompt, and of the text or its items."""
    usage = usage_of(last)
    return (usage.prompt_tokens or 0) + (
        items if usage.completion_tokens is None else usage.completion_tokens
    )


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
