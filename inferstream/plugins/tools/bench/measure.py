"""The implementation of `server bench`: runs a load and checks the measurements against thresholds."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from inferstream.errors import CallFailed
from inferstream.ext.hosting import ClientTarget, V2Client, new_event_loop, report_errors
from inferstream.types import InferenceRequest

from ..infer.run import TransportName
from .figures import LoadLimits, compute_figures
from .load import BenchClient, LoadRun, Plan
from .samples import generate_request, read_request_file

TICK = 0.2
"""Seconds between updates of the progress bar."""


@dataclass(frozen=True, slots=True)
class Question:
    """The request that a load test sends, read from a file or generated with `rows` rows.

    `stream` asks for a streamed response.
    """

    model: str
    transport: TransportName
    stream: bool
    request: Path | None
    rows: int
    headers: Mapping[str, str]


@report_errors
def run(target: ClientTarget, question: Question, plan: Plan, limits: LoadLimits, output: Path | None) -> int:
    """Run the load and print the measurements.

    Returns 0 if all thresholds hold, 130 after Ctrl-C, otherwise 1.
    """
    console = Console(stderr=True, highlight=False)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        measured = runner.run(_measure(target, question, plan, console))
    if output is not None:
        output.write_text(json.dumps(measured, indent=1) + "\n")
    _show(measured, console)
    broken = limits.find_violations(measured)
    for limit in broken:
        console.print(f"not good enough: {limit}", style="red", soft_wrap=True)
    if not measured["answered"]:
        raise CallFailed("no call was answered")
    return 1 if broken else 0


async def _measure(target: ClientTarget, question: Question, plan: Plan, console: Console) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        connect = await (_over_grpc if question.transport == "grpc" else _over_rest)(target, question, stack)
        load = LoadRun(plan, connect)
        stack.push_async_callback(_cancel_and_wait, asyncio.create_task(_progress(load, plan, console)))
        seen = await load.run()
    how = {"rate": plan.rate} if plan.rate else {}
    return {
        "model": question.model,
        "transport": question.transport,
        "stream": question.stream,
        "callers": plan.callers,
        "asked": how,
        **compute_figures(seen),
    }


async def _over_rest(
    target: ClientTarget, question: Question, stack: AsyncExitStack
) -> Callable[[], BenchClient]:
    from .rest import RestCaller

    client = V2Client(target)
    stack.push_async_callback(client.aclose)
    encoded, body = client.encode(question.model, await _request(client, question))
    # User headers override the headers of the encoding.
    headers = {**{name.title(): value for name, value in encoded.items()}, **question.headers}
    action = "generate_stream" if question.stream else "infer"
    return lambda: RestCaller(target, question.model, action, body, headers)


async def _over_grpc(
    target: ClientTarget, question: Question, stack: AsyncExitStack
) -> Callable[[], BenchClient]:
    client = V2Client(target, over_grpc=True)  # First, because it reports a missing extra.
    from .grpc import GrpcCaller

    stack.push_async_callback(client.aclose)
    _, message = client.encode(question.model, await _request(client, question))
    channel = await client.channel()
    return lambda: GrpcCaller(channel, target.timeout, question.stream, message, question.headers)


async def _request(client: V2Client, question: Question) -> InferenceRequest:
    metadata = await client.metadata(question.model)
    if question.request is not None:
        return read_request_file(question.request)
    return generate_request(metadata, question.rows)


async def _progress(load: LoadRun, plan: Plan, console: Console) -> None:
    """Show a progress bar for the duration of the run, if the console is a terminal."""
    if not console.is_terminal:
        return
    columns = (TextColumn("bench"), BarColumn(), TextColumn("{task.fields[state]}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("bench", total=plan.warmup + plan.seconds, state="warming up")
        started = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            passed = time.monotonic() - started
            if (measured := passed - plan.warmup) > 0:
                seen = load.seen
                state = f"{seen.succeeded / measured:,.0f}/s, {seen.failed} failed"
                progress.update(task, completed=passed, state=state)
            else:
                progress.update(task, completed=passed)


async def _cancel_and_wait(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _show(report: dict[str, Any], console: Console) -> None:
    title = (
        f"{report['model']} over {report['transport']}, {report['callers']} callers, {report['seconds']:g} s"
    )
    console.print(title)
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = ("mean", "p50", "p90", "p95", "p99", "max")
    for name in ("ms", *columns):
        table.add_column(name, justify="left" if name == "ms" else "right")
    for name, label in (
        ("latency_ms", "latency"),
        ("first_item_ms", "first item"),
        ("gap_ms", "between items"),
    ):
        if (times := report.get(name)) is not None:
            table.add_row(label, *(f"{times[column]:.2f}" for column in columns))
    if report["answered"]:
        console.print(table)
    summary = f"{report['answered']} answered, {report['rate']:,.1f} a second"
    if "items" in report:
        summary += f"; {report['items']} items, {report['item_rate']:,.1f} a second"
    console.print(summary)
    if report["late"]:
        console.print(f"{report['late']} fell due and never began, all callers being busy", style="yellow")
    for reason, calls in report["failures"].items():
        console.print(f"{calls} failed: {reason}", style="red", soft_wrap=True)
