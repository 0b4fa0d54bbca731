"""The command-line options of `server replay`."""

from pathlib import Path
from typing import Annotated

import typer

from ..commands import AsJson, JUnit, RequestHeaders, read_headers


def replay(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Read this recording (setting `record`).", show_default=False),
    ],
    against: Annotated[str, typer.Option(help="Send to this URL, or serve this folder of models.")],
    grpc: Annotated[
        str | None, typer.Option(help="Send gRPC requests to this HOST:PORT.", show_default="port 8081")
    ] = None,
    speed: Annotated[str, typer.Option(help="Send at this speed: 1x, 2x and so on, or max.")] = "1x",
    diff: Annotated[bool, typer.Option("--diff", help="Compare responses, not only statuses.")] = False,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Allow numbers to differ by this much, relative and absolute.")
    ] = 1e-4,
    header: RequestHeaders = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, help="Allow requests to take this many seconds more than recorded.")
    ] = 60,
    as_json: AsJson = False,
    junit: JUnit = None,
) -> None:
    """Send recorded requests again, and report the responses that differ."""
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
