"""`server bench`: its flags; `measure` does the work."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Milliseconds = float | None


def bench(
    model: Annotated[str, typer.Argument(help="Model to call, of a server that is running.")],
    url: Annotated[
        str | None,
        typer.Option("--url", "-u", help="Server; localhost:8080, over gRPC localhost:8081."),
    ] = None,
    transport: Annotated[
        Literal["rest", "grpc"], typer.Option("--transport", "-t", help="Protocol.")
    ] = "rest",
    stream: Annotated[bool, typer.Option("--stream", help="Take streams, and time their items.")] = False,
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", min=1, help="Callers, each with one call at a time.")
    ] = 8,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="Calls begun a second, whether or not others have ended; --concurrency bounds those under way.",
        ),
    ] = None,
    duration: Annotated[float, typer.Option("--duration", "-d", min=0.1, help="Seconds measured.")] = 10,
    warmup: Annotated[float, typer.Option(min=0, help="Seconds before, which are not.")] = 1,
    request: Annotated[
        Path | None,
        typer.Option("--request", "-i", help="JSON file of the request; else made of the model's metadata."),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="First dimension of a made request.")] = 1,
    binary: Annotated[bool, typer.Option("--binary-data", "-b", help="Send raw tensors.")] = False,
    header: Annotated[
        list[str] | None, typer.Option("--request-headers", "-H", help="'Name: value', repeatedly.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds a call may take.")] = 60,
    use_ssl: Annotated[bool, typer.Option("--use-ssl", help="Use TLS.")] = False,
    insecure: Annotated[bool, typer.Option("--insecure", help="Trust any certificate.")] = False,
    output: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
    max_p50: Annotated[Milliseconds, typer.Option(help="Fail above: latency, ms.")] = None,
    max_p99: Annotated[Milliseconds, typer.Option(help="Fail above: latency, ms.")] = None,
    max_first_p99: Annotated[
        Milliseconds, typer.Option(help="Fail above: time to the first item, ms.")
    ] = None,
    max_gap_p99: Annotated[Milliseconds, typer.Option(help="Fail above: time between items, ms.")] = None,
    min_rate: Annotated[float | None, typer.Option(help="Fail below: calls answered a second.")] = None,
    max_errors: Annotated[
        float | None, typer.Option(min=0, max=1, help="Fail above: share of calls that failed.")
    ] = None,
) -> None:
    """Run a load on a model of a running server, and print its response times."""
    from ...clients.transport import Target
    from ...errors import InvalidSettings
    from ..infer.run import PORTS, headers_of
    from .figures import LoadLimits
    from .load import Plan
    from .measure import Question, run

    try:
        headers = headers_of(header or ())
    except InvalidSettings as error:
        raise typer.BadParameter(error.message) from None
    address = url or f"localhost:{PORTS[transport]}"
    target = Target(address, timeout, binary, use_ssl, not insecure, concurrency)
    question = Question(model, transport, stream, request, rows, headers)
    plan = Plan(concurrency, rate, duration, warmup)
    limits = LoadLimits(max_p50, max_p99, max_first_p99, max_gap_p99, min_rate, max_errors)
    raise typer.Exit(run(target, question, plan, limits, output))
