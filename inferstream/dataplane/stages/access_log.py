"""Access records of calls, for the access log and its subscribers."""

from dataclasses import replace
from time import perf_counter, time

from ...context import request_id_var
from ...errors import InferstreamError
from ...telemetry.access import AccessLines, AccessRecord
from ...telemetry.ends import kind_of_end
from ...telemetry.masks import mask_keys
from ..call import STREAM, Call, Handler
from ..caller import Caller
from ..reply import CountedEnd, Reply
from .base import Pipeline, Shared


class AccessLog:
    """Records each call as the client sees it, including rejected calls."""

    def __init__(self, inner: Handler, lines: AccessLines) -> None:
        self._inner = inner
        self._lines = lines

    async def __call__(self, call: Call) -> Reply:
        began = perf_counter()
        try:
            reply = await self._inner(call)
        except BaseException as error:  # Including cancellation.
            self._lines.put(build_record(call, began, 0, error))
            raise
        if reply.single:
            self._lines.put(build_record(call, began, 1, None))
            return reply
        lines = self._lines
        return reply.watch(
            CountedEnd(lambda error, items: lines.put(build_record(call, began, items, error)))
        )


def build_record(call: Call, began: float, items: int, error: BaseException | None) -> AccessRecord:
    """Create the record of a call that has just ended."""
    return AccessRecord(
        time(),
        call.dialect or "process",
        "stream" if call.operation is STREAM else "infer",  # Reading the value of an enum takes 0.3 µs.
        call.model,
        call.version or "",
        kind_of_end(error),
        perf_counter() - began,
        items,
        call.principal or "",
        mask_keys(call.request.id or ""),
        "" if call.trace is None else _trace_id(call.trace.get("traceparent", "")),
        _message(error),
        request_id_var.get(),
    )


def log_rejection(
    lines: AccessLines, caller: Caller, operation: str, model: str, error: BaseException, began: float | None
) -> None:
    """Log a request that failed before it became a call.

    `began` is its start time on the `perf_counter` clock.
    """
    if lines.on:
        seconds = 0.0 if began is None else perf_counter() - began
        # The client may have put a key where the model's name belongs.
        client, model = caller.principal or "", mask_keys(model)
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
    return mask_keys(error.message) if isinstance(error, InferstreamError) else ""


def _trace_id(traceparent: str) -> str:
    """Return the trace id of a W3C `traceparent` header, `00-<trace>-<span>-<flags>`."""
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 else ""


def access_log(model: Pipeline, shared: Shared) -> Pipeline:
    """Add the access log if the settings enable it. `ServedModel.record_to` adds it for subscribers."""
    if not shared.settings.access_log:
        return model
    # Rejected calls need a record as well.
    return replace(model, handler=AccessLog(model.handler, shared.lines), refuse=None)
