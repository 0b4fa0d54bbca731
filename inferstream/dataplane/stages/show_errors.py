"""Shows a developer the exception behind a failure: to clients at the same machine, and in development only."""

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv6Address, ip_address

from ...errors import Code, InferenceFailed, InferstreamError, ModelError, own_status
from ...telemetry.tracebacks import RaisedElsewhere, explained
from ...types import Headers
from ..call import Call, Handler
from ..reply import Reply
from .base import Pipeline, Shared

LONGEST = 2500
"""Characters of a traceback that a client gets: its end, which fits into a status of gRPC."""


class ToldErrors:
    """Replaces each failure of a call by `told(failure)`, in the middle of a stream too, where `wanted(call)`."""

    def __init__(
        self, inner: Handler, told: Callable[[BaseException], BaseException], wanted: Callable[[Call], bool]
    ) -> None:
        self._inner = inner
        self._told = told
        self._wanted = wanted

    async def __call__(self, call: Call) -> Reply:
        try:
            reply = await self._inner(call)
        except InferstreamError as error:
            if not self._wanted(call):
                raise
            raise self._told(error) from error.__cause__
        if not reply.single and self._wanted(call):
            reply.tell(self._told)
        return reply


def carried(error: BaseException) -> BaseException:
    """The error with its explanation as its cause, for another process."""
    if text := explained(error):
        error.__cause__ = RaisedElsewhere(text)
    return error


def shown(error: BaseException) -> BaseException:
    """An error with the explanation in its message. The given one may be that of other callers too."""
    if not isinstance(error, InferstreamError) or error.code is not Code.INTERNAL:
        return error
    text = explained(error)
    if not text:
        return error
    message = f"{error.message}\n{text if len(text) <= LONGEST else '…' + text[-LONGEST:]}"
    status = own_status(error)
    return InferenceFailed(message) if status is None else ModelError(message, status)


def is_near(call: Call) -> bool:
    """Whether a client of this machine made the call, without a proxy, and reads the reply itself."""
    headers = call.headers
    peer = headers.peer if isinstance(headers, Headers) else None
    if peer is None or not _is_loopback(peer):
        return False
    assert isinstance(headers, Headers)
    for name, value in headers.raw:
        name = (name if isinstance(name, str) else name.decode("latin-1")).lower()
        if name == "forwarded" or name.startswith("x-forwarded-"):
            return False
        if name == "prefer" and "resumable" in str(value).lower():  # others may read such a stream later
            return False
    return True


def _is_loopback(peer: str) -> bool:
    """Whether an address in gRPC's form is one of this machine's own."""
    kind, _, address = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return False
    try:
        host = ip_address(address.rpartition(":")[0].strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
    return host.is_loopback if mapped is None else mapped.is_loopback


def show_errors(model: Pipeline, shared: Shared) -> Pipeline:
    """Off beyond development, and for streams that are always kept for other connections."""
    resumable = model.settings.resumable_streams
    kept = shared.settings.resumable_streams if resumable is None else resumable
    if not shared.settings.shows_errors or kept:
        return model
    return replace(model, handler=ToldErrors(model.handler, shown, is_near))
