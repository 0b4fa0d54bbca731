"""The run of a replay: recordings, sent at their times to a server or to a folder of models, and the report."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
from websockets.exceptions import WebSocketException

from inferstream.ext.hosting import new_event_loop, report_errors
from inferstream.plugins.traffic.tolerance import Tolerance

from ...errors import InvalidSettings, MissingExtra
from ..check.results import Report, Result
from ..check.subject import server_of
from .comparing import compared
from .records import Recorded, read, shown
from .sending import Destination, answer
from .targets import refuser

MOST_SECONDS = 30 * 86400.0
"""Seconds between a recording and the middle one. Others are sent at once, because a wrong time delays all."""

AT_ONCE = 16
"""Recordings that are sent at a time where they do not wait for their times."""


class ReplayOptions(NamedTuple):
    """What is sent, where, and what is written."""

    file: Path
    against: str
    grpc: str | None
    headers: Mapping[str, str]
    speed: float
    """How many times as fast; 0 for without waits."""
    diff: bool
    tolerance: float
    timeout: float
    report: Report


@report_errors
def run(options: ReplayOptions) -> int:
    """Replay and print the results. Returns 0 if all passed, 1 for a difference or a failure."""
    recordings = read(options.file)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            results = runner.run(_replay(options, recordings))
    except ValueError as error:  # a URL that is none
        raise InvalidSettings(f"{options.against}: {error}") from None
    return options.report.write(results)


async def _replay(options: ReplayOptions, recordings: Sequence[Recorded]) -> list[Result]:
    slots = asyncio.Semaphore(len(recordings) + 1 if options.speed else AT_ONCE)
    async with _destination(options) as destination:
        refuse, began = refuser(), perf_counter()
        times = [recorded.time for recorded in recordings]  # in order
        middle = times[len(times) // 2] if times else 0.0
        first = next((time for time in times if middle - time <= MOST_SECONDS), middle)

        async def one(recorded: Recorded) -> Result:
            if options.speed and 0 <= recorded.time - first <= 2 * MOST_SECONDS:
                due = began + (recorded.time - first) / options.speed
                await asyncio.sleep(due - perf_counter())
            async with slots:
                try:
                    return await _result(options, destination, recorded, refuse)
                except Exception as error:  # one that cannot be sent or compared costs no other
                    detail = shown(f"{type(error).__name__}: {error}")
                    return Result(recorded.model, f"{recorded.id} {recorded.dialect}", "failed", detail)

        return await asyncio.gather(*map(one, recordings))


async def _result(
    options: ReplayOptions, destination: Destination, recorded: Recorded, refuse: Callable[[Recorded], str]
) -> Result:
    def result(status: str, detail: str = "") -> Result:
        return Result(recorded.model, f"{recorded.id} {recorded.dialect}", status, detail)

    if recorded.fault:
        return result("failed", recorded.fault)
    if reason := recorded.missing():
        return result("skipped", reason)
    if reason := refuse(recorded):
        return result("failed", f"not sent: {reason}")
    assert recorded.end is not None
    try:
        async with asyncio.timeout(options.timeout + recorded.seconds):
            came = await answer(destination, recorded)
    except MissingExtra as missing:
        return result("skipped", str(missing))
    except (OSError, httpx.HTTPError, WebSocketException) as error:
        return result("failed", shown(f"no answer: {type(error).__name__}: {error}".rstrip(": ")))
    if not options.diff:
        same = came.status == recorded.end.status
        return result("passed" if same else "failed", f"status {came.status}")
    tolerance = Tolerance(relative=options.tolerance, absolute=options.tolerance)
    difference = compared(recorded, came, tolerance)
    if difference.kind in ("bytes", "values"):
        return result("passed", "equal bytes" if difference.kind == "bytes" else "equal within the tolerance")
    return result("failed", f"{difference.kind}: {difference.detail}")


@asynccontextmanager
async def _destination(options: ReplayOptions) -> AsyncIterator[Destination]:
    """The server at a URL; or one of its own with the models of a folder. Raises InvalidSettings."""
    if "://" in options.against:
        url = urlsplit(options.against)
        address = options.grpc or f"{url.hostname}:{8081 if url.port in (8080, None) else url.port}"
        yield Destination(options.against.rstrip("/"), address, options.headers, options.speed)
        return
    logging.getLogger("inferstream").setLevel(logging.CRITICAL)  # a failure is reported with its recording
    async with server_of(options.against) as server:
        http, grpc = f"http://127.0.0.1:{server.ports['REST']}", f"127.0.0.1:{server.ports['gRPC']}"
        yield Destination(http, grpc, options.headers, options.speed)
