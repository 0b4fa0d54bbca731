"""The implementation of `server replay`: schedules recordings, sends them and reports the results."""

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

from inferstream.errors import InvalidSettings, MissingExtra
from inferstream.ext.hosting import new_event_loop, report_errors
from inferstream.plugins.traffic.tolerance import Tolerance

from ..check.results import Report, Result
from ..check.subject import run_server
from .comparing import compare_answers
from .records import Recorded, read_recordings, sanitize
from .sending import Destination, send_recording
from .targets import build_target_check

MAX_SECONDS = 30 * 86400.0
"""Maximum distance in seconds from the median time of the recordings.

Recordings beyond it are sent immediately, so that a wrong timestamp does not delay the run.
"""

AT_ONCE = 16
"""Maximum number of concurrent requests if the recorded times are ignored."""


class ReplayOptions(NamedTuple):
    """The recordings of a replay, their destination and the report."""

    file: Path
    against: str
    grpc: str | None
    headers: Mapping[str, str]
    speed: float
    """The speed-up factor. With 0, the recorded times are ignored."""
    diff: bool
    tolerance: float
    timeout: float
    report: Report


@report_errors
def run(options: ReplayOptions) -> int:
    """Replay the recordings and print the results. Returns 0 if some passed and none failed, otherwise 1."""
    recordings = read_recordings(options.file)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            results = runner.run(_replay(options, recordings))
    except ValueError as error:  # an invalid URL
        raise InvalidSettings(f"{options.against}: {error}") from None
    return options.report.write(results)


async def _replay(options: ReplayOptions, recordings: Sequence[Recorded]) -> list[Result]:
    slots = asyncio.Semaphore(len(recordings) + 1 if options.speed else AT_ONCE)
    async with _open_destination(options) as destination:
        refuse, began = build_target_check(), perf_counter()
        times = [recorded.time for recorded in recordings]  # ordered by time
        middle = times[len(times) // 2] if times else 0.0
        first = next((time for time in times if middle - time <= MAX_SECONDS), middle)

        async def one(recorded: Recorded) -> Result:
            if options.speed and 0 <= recorded.time - first <= 2 * MAX_SECONDS:
                due = began + (recorded.time - first) / options.speed
                await asyncio.sleep(due - perf_counter())
            async with slots:
                try:
                    return await _replay_recording(options, destination, recorded, refuse)
                # A recording that cannot be sent or compared must not affect the others.
                except Exception as error:
                    detail = sanitize(f"{type(error).__name__}: {error}")
                    return Result(recorded.model, f"{recorded.id} {recorded.dialect}", "failed", detail)

        return await asyncio.gather(*map(one, recordings))


async def _replay_recording(
    options: ReplayOptions, destination: Destination, recorded: Recorded, refuse: Callable[[Recorded], str]
) -> Result:
    def result(status: str, detail: str = "") -> Result:
        return Result(recorded.model, f"{recorded.id} {recorded.dialect}", status, detail)

    if recorded.fault:
        return result("failed", recorded.fault)
    if reason := recorded.explain_incomplete():
        return result("skipped", reason)
    if reason := refuse(recorded):
        return result("failed", f"not sent: {reason}")
    assert recorded.end is not None
    try:
        async with asyncio.timeout(options.timeout + recorded.seconds):
            came = await send_recording(destination, recorded)
    except MissingExtra as missing:
        return result("skipped", str(missing))
    except (OSError, httpx.HTTPError, WebSocketException) as error:
        return result("failed", sanitize(f"no answer: {type(error).__name__}: {error}".rstrip(": ")))
    if not options.diff:
        same = came.status == recorded.end.status
        return result("passed" if same else "failed", f"status {came.status}")
    tolerance = Tolerance(relative=options.tolerance, absolute=options.tolerance)
    difference = compare_answers(recorded, came, tolerance)
    if difference.kind in ("bytes", "values"):
        return result("passed", "equal bytes" if difference.kind == "bytes" else "equal within the tolerance")
    return result("failed", f"{difference.kind}: {difference.detail}")


@asynccontextmanager
async def _open_destination(options: ReplayOptions) -> AsyncIterator[Destination]:
    """Yield the server at a URL, or a new server for the models of a folder. Raises InvalidSettings."""
    if "://" in options.against:
        url = urlsplit(options.against)
        address = options.grpc or f"{url.hostname}:{8081 if url.port in (8080, None) else url.port}"
        yield Destination(options.against.rstrip("/"), address, options.headers, options.speed)
        return
    logging.getLogger("inferstream").setLevel(logging.CRITICAL)  # Failures are reported with their recording.
    async with run_server(options.against) as server:
        http, grpc = f"http://127.0.0.1:{server.ports['REST']}", f"127.0.0.1:{server.ports['gRPC']}"
        yield Destination(http, grpc, options.headers, options.speed)
