"""A record for each call, for the access log and for those who follow it."""

from dataclasses import replace
from time import perf_counter, time

from ...context import request_id_var
from ...errors import InferstreamError
from ...telemetry.access import AccessLines, AccessRecord
from ...telemetry.ends import kind_of_end
from ...telemetry.masks import without_keys
from ..call import STREAM, Call, Handler
from ..caller import Caller
from ..reply import CountedEnd, Reply
from .base import Pipeline, Shared


class AccessLog:
    """Sees what the client sees, refusals included."""

    def __init__(self, inner: Handler, lines: AccessLines) -> None:
        self._inner = inner
        self._lines = lines

    async def __call__(self, call: Call) -> Reply:
        began = perf_counter()
        try:
            reply = await self._inner(call)
        except BaseException as error:  # a cancelled call has ended too
            self._lines.put(record_of(call, began, 0, error))
            raise
        if reply.single:
            self._lines.put(record_of(call, began, 1, None))
            return reply
        lines = self._lines
        return reply.watch(CountedEnd(lambda error, items: lines.put(record_of(call, began, items, error))))


def record_of(call: Call, began: float, items: int, error: BaseException | None) -> AccessRecord:
    """The record of a call that has ended now."""
    return AccessRecord(
        time(),
        call.dialect or "process",
        "stream" if call.operation is STREAM else "infer",  # an Enum's value takes 0.3 µs
        call.model,
        call.version or "",
        kind_of_end(error),
        perf_counter() - began,
        items,
        call.principal or "",
        without_keys(call.request.id or ""),
        "" if call.trace is None else _trace_id(call.trace.get("traceparent", "")),
        _message(error),
        request_id_var.get(),
    )


def refused(
    lines: AccessLines, caller: Caller, operation: str, model: str, error: BaseException, began: float | None
) -> None:
    """Log a request that ended in an error before it became a call; `began` is on the clock of `perf_counter`."""
    if lines.on:
        seconds = 0.0 if began is None else perf_counter() - began
        client, model = caller.principal or "", without_keys(model)  # which need not be one
        record = (
            time(),
            caller.dialect,
            operation,
            model,
            "",
            kind_of_end(error),
            seconds,
            0,
            client,
            "",
            "",
        )
        lines.put(AccessRecord(*record, _message(error), request_id_var.get()))


def _message(error: BaseException | None) -> str:
    return without_keys(error.message) if isinstance(error, InferstreamError) else ""


def _trace_id(traceparent: str) -> str:
    """The id of the trace in a header of W3C: `00-<trace>-<span>-<flags>`."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 else ""


def access_log(model: Pipeline, shared: Shared) -> Pipeline:
    """Off unless the settings ask for it. `ServedModel.record_to` adds it while the log has a subscriber."""
    if not shared.settings.access_log:
        return model
    # Refused calls have a line too.
    return replace(model, handler=AccessLog(model.handler, shared.lines), refuse=None)
