"""The flags of the tools. Each function is a command that joins by an entry point, and imports its tool late."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Milliseconds = float | None
RequestHeaders = Annotated[
    list[str] | None, typer.Option("--request-headers", "-H", help="'Name: value', repeatedly.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Trust any certificate.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JUnit = Annotated[Path | None, typer.Option("--junit", help="Write JUnit's XML to this file.")]
ModelFolder = Annotated[Path, typer.Argument(help="Folder of models, or of one model.")]


def _flag(name: str, short: str | None = None, *, help: str, **options: Any) -> Any:
    """The flag `--name`, with a variable of ours and one of MLServer's."""
    variable = name.replace("-", "_").upper()
    names = [f"--{name}"] if short is None else [f"--{name}", short]
    variables = [f"INFERSTREAM_INFER_{variable}", f"MLSERVER_INFER_{variable}"]
    return typer.Option(*names, envvar=variables, show_envvar=False, help=help, **options)


def read_headers(given: list[str] | None) -> dict[str, str]:
    from ..errors import InvalidSettings
    from .infer.run import headers_of

    try:
        return headers_of(given or ())
    except InvalidSettings as error:
        raise typer.BadParameter(error.message) from None


TIMEOUT_VARIABLES = [
    "INFERSTREAM_INFER_CONNECTION_TIMEOUT",
    "MLSERVER_INFER_CONNECTION_TIMEOUT",
    "INFERSTREAM_INFER_TIMEOUT",
]


def infer(
    model_name: Annotated[str, _flag("model-name", "-m", help="Model to ask.")],
    input_data_path: Annotated[Path, _flag("input-data-path", "-i", help="Requests, one a line.")],
    output_data_path: Annotated[Path, _flag("output-data-path", "-o", help="Answers, one a line.")],
    url: Annotated[
        str | None, _flag("url", "-u", help="Server; localhost:8080, over gRPC localhost:8081.")
    ] = None,
    workers: Annotated[int, _flag("workers", "-w", min=1, help="Calls at a time.")] = 10,
    retries: Annotated[int, _flag("retries", "-r", min=0, help="Further attempts.")] = 3,
    batch_size: Annotated[int, _flag("batch-size", "-s", min=1, help="Lines in one call.")] = 1,
    binary_data: Annotated[bool, _flag("binary-data", "-b", help="Send raw tensors.")] = False,
    verbose: Annotated[bool, _flag("verbose", "-v", help="Tell of failures and retries.")] = False,
    extra_verbose: Annotated[bool, _flag("extra-verbose", "-vv", help="Tell of every call.")] = False,
    transport: Annotated[Literal["rest", "grpc"], _flag("transport", "-t", help="Protocol.")] = "rest",
    request_headers: Annotated[
        list[str] | None, _flag("request-headers", "-H", help="'Name: value', repeatedly.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, envvar=TIMEOUT_VARIABLES, help="Seconds a call may take.")
    ] = 60,
    batch_interval: Annotated[
        float, _flag("batch-interval", min=0, help="Seconds between a worker's calls.")
    ] = 0,
    batch_jitter: Annotated[float, _flag("batch-jitter", min=0, help="At most so many more, at random.")] = 0,
    use_ssl: Annotated[bool, _flag("use-ssl", help="Use TLS.")] = False,
    insecure: Annotated[bool, _flag("insecure", help="Trust any certificate.")] = False,
    resume: Annotated[bool, _flag("resume", help="Keep the answers in the output.")] = False,
) -> None:
    """Send every request of a JSONL file to a server.

    Each flag has a variable as well: INFERSTREAM_INFER_MODEL_NAME, MLSERVER_INFER_MODEL_NAME and so on.
    """
    from inferstream.ext.hosting import ClientTarget

    from .infer.batch import Rate
    from .infer.run import PORTS, Files, run

    target = ClientTarget(
        url=url or f"localhost:{PORTS[transport]}",
        timeout=timeout,
        binary=binary_data,
        ssl=use_ssl,
        verify=not insecure,
        connections=workers,
    )
    files = Files(input_data_path, output_data_path, batch_size, resume)
    pace = Rate(workers, retries, batch_interval, batch_jitter, read_headers(request_headers))
    raise typer.Exit(run(transport, target, model_name, files, pace, 2 if extra_verbose else int(verbose)))


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
    header: RequestHeaders = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds a call may take.")] = 60,
    use_ssl: Annotated[bool, typer.Option("--use-ssl", help="Use TLS.")] = False,
    insecure: Insecure = False,
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
    from inferstream.ext.hosting import ClientTarget

    from .bench.figures import LoadLimits
    from .bench.load import Plan
    from .bench.measure import Question, run
    from .infer.run import PORTS

    address = url or f"localhost:{PORTS[transport]}"
    headers = read_headers(header)
    target = ClientTarget(address, timeout, binary, use_ssl, not insecure, concurrency, headers)
    question = Question(model, transport, stream, request, rows, headers)
    plan = Plan(concurrency, rate, duration, warmup)
    limits = LoadLimits(max_p50, max_p99, max_first_p99, max_gap_p99, min_rate, max_errors)
    raise typer.Exit(run(target, question, plan, limits, output))


def stub(
    target: Annotated[str, typer.Argument(help="An app: module:app or app.py.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")] = None,
) -> None:
    """Write a typed client of the app TARGET."""
    from .stub.run import run

    raise typer.Exit(run(target, output))


def top(
    url: Annotated[str, typer.Argument(help="Server, at its REST or metrics port.")] = "localhost:8080",
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    request_headers: RequestHeaders = None,
    insecure: Insecure = False,
) -> None:
    """Show the models of a running server and their numbers, live."""
    from inferstream.ext.hosting import ClientTarget

    from .top.table import run

    target = ClientTarget(url, verify=not insecure, headers=read_headers(request_headers))
    raise typer.Exit(run(target, once, interval))


def tail(
    url: Annotated[str, typer.Argument(help="Server, at its REST port.")] = "localhost:8080",
    model: Annotated[str | None, typer.Option("--model", "-m", help="Calls of this model only.")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Calls that failed only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    request_headers: RequestHeaders = None,
    insecure: Insecure = False,
) -> None:
    """Show the calls of a running server as they end."""
    from inferstream.ext.hosting import ClientTarget

    from .tail import run

    target = ClientTarget(url, verify=not insecure, headers=read_headers(request_headers))
    raise typer.Exit(run(target, model, errors, as_json))


def check(
    target: Annotated[
        str, typer.Argument(help="Folder of models, or of one model, or an app: module:app or app.py.")
    ],
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="Only this one; repeatable.")
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="Requests to make for each contract.")] = 20,
    calls: Annotated[int, typer.Option(min=10, help="Calls between two looks at the memory.")] = 1000,
    ending: Annotated[
        float, typer.Option(min=0.01, help="Seconds a call that is left may take to end.")
    ] = 1.0,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds for each contract.")] = 10.0,
    as_json: AsJson = False,
    junit: JUnit = None,
) -> None:
    """Test the models of TARGET against contracts made from their signatures."""
    from ..errors import MissingExtra

    try:
        from .check.contracts import CheckLimits
        from .check.results import Report
        from .check.run import Options, run
    except MissingExtra as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    report = Report("check", "contract", as_json, junit)
    options = Options(target, model or (), examples, CheckLimits(ending, calls, seconds), report)
    raise typer.Exit(run(options))


def dockerfile(
    folder: ModelFolder,
    include_dockerignore: Annotated[
        bool, typer.Option("--include-dockerignore", "-i", help="Write a .dockerignore as well.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that you wrote.")] = False,
) -> None:
    """Write a Dockerfile for FOLDER into it."""
    from .image.dockerfile import write

    raise typer.Exit(write(folder, include_dockerignore, force))


def build(
    folder: ModelFolder,
    tag: Annotated[str, typer.Option("--tag", "-t", help="Name of the image.")],
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Build every layer anew.")] = False,
) -> None:
    """Build the image of FOLDER with Docker."""
    from .image.dockerfile import build as run

    raise typer.Exit(run(folder, tag, no_cache))
