"""The implementation of `server infer`: progress, signals and the exit code."""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from inferstream.errors import InvalidSettings
from inferstream.ext.hosting import ClientTarget, V2Client, report_errors
from inferstream.ext.telemetry import get_logger

from .batch import BatchRun, Rate
from .request_file import RequestFile
from .results import ResultFile

TransportName = Literal["rest", "grpc"]
PORTS: dict[TransportName, int] = {"rest": 8080, "grpc": 8081}


@dataclass(frozen=True, slots=True)
class Files:
    """The input and output files of a run."""

    requests: Path
    output: Path
    batch_size: int
    resume: bool


@report_errors
def run(
    transport: TransportName, target: ClientTarget, model: str, files: Files, pace: Rate, verbosity: int
) -> int:
    """Run the batch. Returns 0 if every line has a response, 130 after Ctrl-C, otherwise 1."""
    _set_up_logging(verbosity)
    console = Console(stderr=True, highlight=False)
    _check(files)
    return asyncio.run(_run(transport, target, model, files, pace, console))


def parse_headers(given: Sequence[str]) -> dict[str, str]:
    """Parse headers of the form `Name: value`. Raises InvalidSettings."""
    headers = {}
    for header in given:
        name, colon, value = header.partition(":")
        if not colon or not name.strip():
            raise InvalidSettings(f"header {header!r} is not of the form 'Name: value'")
        headers[name.strip()] = value.strip()
    return headers


def _set_up_logging(verbosity: int) -> None:
    levels = (logging.WARNING, logging.INFO, logging.DEBUG)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    get_logger("clients").setLevel(levels[verbosity])


def _check(files: Files) -> None:
    if not files.requests.is_file():
        raise InvalidSettings(f"{files.requests} is not a file")
    if files.output.exists() and files.output.samefile(files.requests):
        raise InvalidSettings("the output would replace the input")


@asynccontextmanager
async def open_run(
    name: TransportName, target: ClientTarget, model: str, files: Files, pace: Rate
) -> AsyncIterator[BatchRun]:
    """Open the files and the client of a run, and close them after the block."""
    results = ResultFile(files.output, files.resume)
    request_file = RequestFile(files.requests, files.batch_size, results.done)
    client = V2Client(target, over_grpc=name == "grpc")
    try:
        yield BatchRun(client, model, request_file, results, pace)
    finally:
        await client.aclose()
        request_file.close()
        results.close()


async def _run(
    name: TransportName, target: ClientTarget, model: str, files: Files, pace: Rate, console: Console
) -> int:
    started = time.monotonic()
    async with open_run(name, target, model, files, pace) as batch:
        with _progress(batch.file, console) as batch.advanced:
            stopped = await _run_until_signal(batch)
    results = batch.results
    parts = [f"{results.succeeded} answered", f"{results.failed} failed"]
    if files.resume:
        parts.append(f"{batch.file.skipped} answered before")
    console.print(f"{', '.join(parts)} in {time.monotonic() - started:.1f} s")
    for line in _failures(results, files.output):
        console.print(line, soft_wrap=True, markup=False)
    if stopped or batch.unreachable:
        why = "stopped" if stopped else f"{target.url} cannot be reached any more: {batch.unreachable}"
        console.print(f"{why}; with --resume the same command goes on from here", soft_wrap=True)
    if stopped:
        return 128 + stopped
    return 1 if results.failed or batch.unreachable else 0


def _failures(results: ResultFile, output: Path) -> Iterator[str]:
    """Yield messages about the first failed lines, with their index in the output."""
    for index, reason in results.named:
        yield f"batch_index {index} failed: {' '.join(reason.split())}"
    if more := results.failed - len(results.named):
        yield f"and {more} more, as {output} says"


async def _run_until_signal(batch: BatchRun) -> int:
    """Run the batch until it ends or a signal arrives. Returns the signal number, or 0."""
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(batch.run())
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    await asyncio.wait([task])
    try:
        if not task.cancelled():
            task.result()
    except ExceptionGroup as group:
        raise group.exceptions[0] from None  # All workers raise the same error, such as a full disk.
    return received[0] if received else 0


@contextmanager
def _progress(request_file: RequestFile, console: Console) -> Iterator[Callable[[], None]]:
    """Show a progress bar over the bytes of the input, if the console is a terminal."""
    if not console.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn("infer"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("infer", total=max(request_file.total_bytes, 1))
        yield lambda: progress.update(task, completed=request_file.read_bytes)
