"""`server replay`."""

from pathlib import Path
from typing import Annotated

import typer

from ..commands import AsJson, JUnit, RequestHeaders, read_headers


def replay(
    file: Annotated[Path, typer.Argument(help="File of records, which the setting `record` names.")],
    against: Annotated[str, typer.Option(help="URL of a server, or a folder of models to serve.")],
    grpc: Annotated[str | None, typer.Option(help="The server's gRPC port; host:8081.")] = None,
    speed: Annotated[str, typer.Option(help="1x, 2x and so on, or max: without waits.")] = "1x",
    diff: Annotated[bool, typer.Option("--diff", help="Compare responses, not statuses alone.")] = False,
    tolerance: Annotated[float, typer.Option(min=0, help="Of numbers, relative and absolute.")] = 1e-4,
    header: RequestHeaders = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds a request may take longer.")] = 60,
    as_json: AsJson = False,
    junit: JUnit = None,
) -> None:
    """Send recorded requests again, over the same protocols, and report what differs."""
    from ..check.results import Report
    from .run import ReplayOptions, run

    try:
        times = 0.0 if speed == "max" else float(speed.removesuffix("x"))
    except ValueError:
        raise typer.BadParameter(f'--speed is "1x", "2x" and so on, or "max", and not "{speed}"') from None
    report = Report("replay", "recording", as_json, junit)
    raise typer.Exit(
        run(ReplayOptions(file, against, grpc, read_headers(header), times, diff, tolerance, timeout, report))
    )
