"""The limits of keys around a call, and its line in the audit log."""

from ..keys.errors import LimitExceeded
from ..keys.quotas import MeteredUse
from ..text.usage import usage_of
from ..types import InferenceResponse
from .call import Call, Operation
from .caller import Caller
from .handler import Handler
from .metering import NOBODY, Metering
from .reply import Reply, Watcher


async def metered(metering: Metering, handler: Handler, call: Call, caller: Caller, size: int) -> Reply:
    """Open a call, whose request has `size` bytes. Raises LimitExceeded, and the errors of the handler."""
    key = caller.key or NOBODY
    stream = call.operation is Operation.STREAM
    use: MeteredUse | None = None
    try:
        use = metering.quotas.begin(key, stream, 0 if stream else 1, size)
        reply = await handler(call)
        if not reply.single:
            try:
                return reply.watch(_UseOfStream(metering, use, call, caller))
            except LimitExceeded as error:
                await reply.aclose(error)
                raise
    except BaseException as error:  # a cancelled call has ended too
        if use is not None:
            use.end()
        _record(metering, use, call, caller, error)
        raise
    use.end(_tokens(reply.first, 1))
    if metering.audit is not None:
        _record(metering, use, call, caller, None)
    return reply


class _UseOfStream(Watcher):
    """Counts the items of a stream before its reader gets them."""

    __slots__ = ("_call", "_caller", "_last", "_metering", "_use")

    def __init__(self, metering: Metering, use: MeteredUse, call: Call, caller: Caller) -> None:
        self._metering = metering
        self._use = use
        self._call = call
        self._caller = caller
        self._last: InferenceResponse | None = None

    def item(self, response: InferenceResponse) -> None:
        """Raise LimitExceeded, which the reader gets in place of the response."""
        use = self._use
        use.tokens += 1  # as `charge` does, whose call would cost 60 ns a token
        if use.tokens > use.paid:
            if use.account.left > 0:
                use.account.left -= 1
            else:
                use.tokens -= 1
                use.charge()
        self._last = response

    def end(self, error: BaseException | None) -> None:
        self._use.end(_tokens(self._last, self._use.tokens))
        _record(self._metering, self._use, self._call, self._caller, error)


def _tokens(last: InferenceResponse | None, items: int) -> int:
    """Tokens of a call by the parameters of its last response: those of the prompt, and of the text or its items."""
    if last is None or last.parameters is None:
        return items
    usage = usage_of(last.parameters)
    return (usage.prompt_tokens or 0) + (
        items if usage.completion_tokens is None else usage.completion_tokens
    )


def _record(
    metering: Metering, use: MeteredUse | None, call: Call, caller: Caller, error: BaseException | None
) -> None:
    operation = "stream" if call.operation is Operation.STREAM else "infer"
    metering.record(operation, caller, call.model, call.version or "", call.request.id or "", use, error)
