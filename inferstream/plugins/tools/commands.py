"""The command-line options of the tools. Each command imports its implementation lazily."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from .image.allowed_runtimes import AllowedRuntimes

Milliseconds = float | None
RequestHeaders = Annotated[
    list[str] | None,
    typer.Option("--request-headers", "-H", help="Send this header, 'Name: value'; repeatable."),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Use TLS with any certificate.")]
Tls = Annotated[bool, typer.Option("--tls", help="Use TLS.")]
UseSsl = Annotated[bool, typer.Option("--use-ssl", hidden=True)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JUnit = Annotated[Path | None, typer.Option("--junit", help="Write a JUnit report (XML) to this file.")]
ModelFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Use this folder of models.", show_default=False)
]
AllowRuntime = Annotated[
    list[str] | None,
    typer.Option(help="Trust this class, module.Class, and the built-in runtimes only; repeatable."),
]
RuntimePath = Annotated[
    list[str] | None, typer.Option(help="Install this module or package of the folder; repeatable.")
]
TrustAll = Annotated[
    bool | None,
    typer.Option("--dev/--no-dev", help="Trust every class (default), or only the built-in runtimes."),
]
Timeout = Annotated[float, typer.Option(min=0.001, help="Fail calls that take longer, in seconds.")]
URL_DEFAULT = "localhost:8080, over gRPC localhost:8081"

limit = partial(typer.Option, rich_help_panel="Limits")


def _flag(name: str, short: str | None = None, *, help: str, **options: Any) -> Any:
    """Create an option `--name` that can also be set with an INFERSTREAM or MLSERVER environment variable."""
    variable = name.replace("-", "_").upper()
    names = [f"--{name}"] if short is None else [f"--{name}", short]
    variables = [f"INFERSTREAM_INFER_{variable}", f"MLSERVER_INFER_{variable}"]
    return typer.Option(*names, envvar=variables, show_envvar=False, help=help, **options)


def read_headers(given: list[str] | None) -> dict[str, str]:
    from inferstream.errors import InvalidSettings

    from .infer.run import parse_headers

    try:
        return parse_headers(given or ())
    except InvalidSettings as error:
        raise typer.BadParameter(error.message) from None


TIMEOUT_VARIABLES = [
    "INFERSTREAM_INFER_CONNECTION_TIMEOUT",
    "MLSERVER_INFER_CONNECTION_TIMEOUT",
    "INFERSTREAM_INFER_TIMEOUT",
]


InferRetries = Annotated[int, _flag("retries", "-r", min=0, help="Retry failed calls up to this many times.")]
InferBatchSize = Annotated[
    int, _flag("batch-size", "-s", min=1, help="Combine up to this many lines in one call.")
]
InferBinaryData = Annotated[bool, _flag("binary-data", "-b", help="Send and receive tensors as raw bytes.")]
InferTransport = Annotated[Literal["rest", "grpc"], _flag("transport", "-t", help="Use this protocol.")]
InferRequestHeaders = Annotated[
    list[str] | None, _flag("request-headers", "-H", help="Send this header, 'Name: value'; repeatable.")
]
InferTimeout = Annotated[
    float,
    typer.Option(
        min=0.001,
        envvar=TIMEOUT_VARIABLES,
        show_envvar=False,
        help="Fail attempts that take longer, in seconds.",
    ),
]
InferBatchInterval = Annotated[
    float, _flag("batch-interval", min=0, help="Wait this many seconds between calls of a worker.")
]
InferBatchJitter = Annotated[
    float, _flag("batch-jitter", min=0, help="Wait up to this many seconds more, at random.")
]
InferResume = Annotated[
    bool, _flag("resume", help="Keep the responses in the output, and send the other requests.")
]


def infer(
    model_name: Annotated[str, _flag("model-name", "-m", help="Call this model.")],
    input_data_path: Annotated[
        Path, _flag("input-data-path", "-i", help="Read V2 requests from this file, one per line.")
    ],
    output_data_path: Annotated[
        Path, _flag("output-data-path", "-o", help="Write responses to this file, one per line.")
    ],
    url: Annotated[str | None, _flag("url", "-u", help="Call this server.", show_default=URL_DEFAULT)] = None,
    workers: Annotated[int, _flag("workers", "-w", min=1, help="Make this many calls at a time.")] = 10,
    retries: InferRetries = 3,
    batch_size: InferBatchSize = 1,
    binary_data: InferBinaryData = False,
    verbose: Annotated[bool, _flag("verbose", "-v", help="Report failures and retries.")] = False,
    extra_verbose: Annotated[bool, _flag("extra-verbose", "-vv", help="Report every call.")] = False,
    transport: InferTransport = "rest",
    request_headers: InferRequestHeaders = None,
    timeout: InferTimeout = 60,
    batch_interval: InferBatchInterval = 0,
    batch_jitter: InferBatchJitter = 0,
    tls: Annotated[bool, _flag("tls", help="Use TLS.")] = False,
    use_ssl: Annotated[bool, _flag("use-ssl", help="Use TLS.", hidden=True)] = False,
    insecure: Annotated[bool, _flag("insecure", help="Use TLS with any certificate.")] = False,
    resume: InferResume = False,
) -> None:
    """Send every request in a file to a server, and write the responses.

    The input has one V2 request per line. The output has a line for each, ordered by the arrival of the responses. `batch_index` is the number of the input line, from 0. If a request has no response, its line has an `error` with `status` and `msg`. Exits with code 0 only if every request has a response.

    Calls are retried if there was no connection, and after 429, 502, 503, 504, UNAVAILABLE and RESOURCE_EXHAUSTED. The pause grows with each retry and is never shorter than `Retry-After`. With --batch-size, requests that differ only in their values and number of rows are sent in one call. If the server rejects that call, each request is sent separately.

    Ctrl+C and SIGTERM exit with 130 and 143, and --resume continues. If the server becomes unreachable, the command exits with code 1.

    Each option has a variable, such as INFERSTREAM_INFER_MODEL_NAME or MLSERVER_INFER_MODEL_NAME. For --timeout, its name ends in CONNECTION_TIMEOUT. To use another certificate authority, set SSL_CERT_FILE, or GRPC_DEFAULT_SSL_ROOTS_FILE_PATH for gRPC.
    """  # noqa: E501
    from inferstream.ext.hosting import ClientTarget

    from .infer.batch import Rate
    from .infer.run import PORTS, Files, run

    target = ClientTarget(
        url=url or f"localhost:{PORTS[transport]}",
        timeout=timeout,
        binary=binary_data,
        ssl=tls or use_ssl,
        verify=not insecure,
        connections=workers,
    )
    files = Files(input_data_path, output_data_path, batch_size, resume)
    pace = Rate(workers, retries, batch_interval, batch_jitter, read_headers(request_headers))
    raise typer.Exit(run(transport, target, model_name, files, pace, 2 if extra_verbose else int(verbose)))


Url = Annotated[
    str | None,
    typer.Option("--url", "-u", help="Call this server.", show_default=URL_DEFAULT),
]
Transport = Annotated[Literal["rest", "grpc"], typer.Option("--transport", "-t", help="Use this protocol.")]
Stream = Annotated[bool, typer.Option("--stream", help="Call the model as a stream, and time its items.")]
Concurrency = Annotated[
    int,
    typer.Option("--concurrency", "-c", min=1, help="Run this many callers, each with one call at a time."),
]
Rate = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        help="Start this many calls per second, even if others are running (open loop).",
    ),
]
Duration = Annotated[float, typer.Option("--duration", "-d", min=0.1, help="Measure for this many seconds.")]
Request = Annotated[
    Path | None,
    typer.Option("--request", "-i", help="Send the V2 JSON in this file instead of a generated request."),
]
Binary = Annotated[bool, typer.Option("--binary-data", "-b", help="Send and receive tensors as raw bytes.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the results to this file, as JSON.")
]
MaxP50 = Annotated[Milliseconds, limit(help="Fail if the 50th percentile of latency exceeds this, in ms.")]
MaxP99 = Annotated[Milliseconds, limit(help="Fail if the 99th percentile of latency exceeds this, in ms.")]
MaxFirstP99 = Annotated[
    Milliseconds, limit(help="Fail if the 99th percentile to the first item exceeds this, in ms.")
]
MaxGapP99 = Annotated[
    Milliseconds, limit(help="Fail if the 99th percentile between items exceeds this, in ms.")
]
MaxErrors = Annotated[
    float | None, limit(min=0, max=1, help="Fail if more than this share of calls fails, from 0 to 1.")
]


def bench(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Call this model.", show_default=False)],
    url: Url = None,
    transport: Transport = "rest",
    stream: Stream = False,
    concurrency: Concurrency = 8,
    rate: Rate = None,
    duration: Duration = 10,
    warmup: Annotated[float, typer.Option(min=0, help="Warm up for this many seconds first.")] = 1,
    request: Request = None,
    rows: Annotated[int, typer.Option(min=1, help="Generate this many rows.")] = 1,
    binary: Binary = False,
    header: RequestHeaders = None,
    timeout: Timeout = 60,
    tls: Tls = False,
    use_ssl: UseSsl = False,
    insecure: Insecure = False,
    output: Output = None,
    json_file: Annotated[Path | None, typer.Option("--json", hidden=True)] = None,
    max_p50: MaxP50 = None,
    max_p99: MaxP99 = None,
    max_first_p99: MaxFirstP99 = None,
    max_gap_p99: MaxGapP99 = None,
    min_rate: Annotated[float | None, limit(help="Fail if fewer calls per second succeed.")] = None,
    max_errors: MaxErrors = None,
) -> None:
    """Measure the latency of a model on a running server under load.

    Works with any V2 server. For streams, also measures the times to the first item and between items. Without --request, the declared inputs are filled with random numbers and the word `hello`.

    With --rate, a call is timed from the moment it was due. Calls that cannot start because all callers are busy are only counted, so choose a --concurrency well above the rate times the latency. Failed calls are counted by error and not timed.

    Exits with code 1 if a limit is not met or no call succeeds. If the command itself keeps a core busy, it distorts the times.
    """  # noqa: E501
    from inferstream.ext.hosting import ClientTarget

    from .bench.figures import LoadLimits
    from .bench.load import Plan
    from .bench.measure import Question, run
    from .infer.run import PORTS

    address = url or f"localhost:{PORTS[transport]}"
    headers = read_headers(header)
    target = ClientTarget(address, timeout, binary, tls or use_ssl, not insecure, concurrency, headers)
    question = Question(model, transport, stream, request, rows, headers)
    plan = Plan(concurrency, rate, duration, warmup)
    limits = LoadLimits(max_p50, max_p99, max_first_p99, max_gap_p99, min_rate, max_errors)
    raise typer.Exit(run(target, question, plan, limits, output or json_file))


def stub(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Use this app: app.py or module:app.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the module to this file.", show_default="standard output"),
    ] = None,
) -> None:
    """Write a typed Python client for an app."""
    from .stub.run import run

    raise typer.Exit(run(target, output))


def top(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="Read the metrics of this server.")
    ] = "localhost:8080",
    once: Annotated[bool, typer.Option("--once", help="Print one table and exit.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Wait this many seconds between refreshes.")] = 2.0,
    request_headers: RequestHeaders = None,
    insecure: Insecure = False,
) -> None:
    """Show live metrics of the models on a running server.

    calls/s, errors/s and items/s are rates since the last refresh. running counts the calls in progress, and queue the waiting ones among them. p50 and p99 are durations of whole calls, first p50 and first p99 the times to the first response of a stream. batch is the mean number of requests in a batch, or of streams in a step. Times and batch cover the last 15 seconds, or with --once the time since the server started.

    The metrics are read from /metrics at URL, or at port 8082 of its host. A URL with a path is used unchanged. If the server has keys, you need the scope `metrics`. Without a terminal, one table is printed.
    """  # noqa: E501
    from inferstream.ext.hosting import ClientTarget

    from .top.table import run

    target = ClientTarget(url, verify=not insecure, headers=read_headers(request_headers))
    raise typer.Exit(run(target, once, interval))


def tail(
    url: Annotated[str, typer.Argument(metavar="URL", help="Follow this server.")] = "localhost:8080",
    model: Annotated[str | None, typer.Option("--model", "-m", help="Show only calls of this model.")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Show only calls that failed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    request_headers: RequestHeaders = None,
    insecure: Insecure = False,
) -> None:
    """Show the calls of a running server as they finish.

    Reads `GET /v2/access`, which requires loopback, `allow_open_repository`, or a key with the scope `access`. Exits with code 0 when the server stops. A server has at most 16 such clients. A client that reads too slowly loses lines, and shows how many.
    """  # noqa: E501
    from inferstream.ext.hosting import ClientTarget

    from .tail import run

    target = ClientTarget(url, verify=not insecure, headers=read_headers(request_headers))
    raise typer.Exit(run(target, model, errors, as_json))


def check(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Test this model folder or app.", show_default=False)
    ],
    model: Annotated[
        list[str] | None, typer.Option("--model", "-m", help="Test only this model; repeatable.")
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="Generate this many requests for each contract.")] = 20,
    calls: Annotated[
        int, typer.Option(min=10, help="Make this many calls between two memory measurements.")
    ] = 1000,
    ending: Annotated[
        float, typer.Option(min=0.01, help="Allow a cancelled call this many seconds to finish.")
    ] = 1.0,
    seconds: Annotated[
        float, typer.Option(min=1, help="Spend at most this many seconds on a contract.")
    ] = 10.0,
    as_json: AsJson = False,
    junit: JUnit = None,
) -> None:
    """Test models against contracts derived from their signatures.

    For example, a stream equals the single response, the rows of a batch do not affect each other, a cancelled call closes its generator, and memory does not grow. Requires the extra `check`.
    """  # noqa: E501
    from inferstream.errors import MissingExtra, describe_failure

    try:
        from .check.contracts import CheckLimits
        from .check.results import Report
        from .check.run import Options, run
    except MissingExtra as error:
        typer.echo(describe_failure(error.message), err=True)
        raise typer.Exit(1) from None
    report = Report("check", "contract", as_json, junit)
    options = Options(target, model or (), examples, CheckLimits(ending, calls, seconds), report)
    raise typer.Exit(run(options))


def dockerfile(
    folder: ModelFolder,
    include_dockerignore: Annotated[
        bool, typer.Option("--include-dockerignore", "-i", help="Write a .dockerignore as well.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that you wrote yourself.")] = False,
    allow_runtime: AllowRuntime = None,
    runtime_path: RuntimePath = None,
    dev: TrustAll = None,
) -> None:
    """Write a Dockerfile into a folder of models.

    The image has the Python environment of `environment.yml` or `conda.yml`, the packages of `requirements.txt`, this server as a wheel, and the extras that settings and models need. It runs as uid 1000, listens on 0.0.0.0, and serves /mnt/models if a volume is mounted there, otherwise its own models. Settings become environment variables, which the orchestrator can override. Write the file again when settings change.

    In the image, the folder is MLSERVER_PATH (/opt/mlserver), MLSERVER_MODELS_DIR is /mnt/models, and models run in the environment of MLSERVER_ENV_TARBALL if that file exists. `docker build --build-arg INFERSTREAM=URL` installs another wheel of the server.

    Plug-ins are in the image if `requirements.txt` or the conda file lists them. The command names installed plug-ins that are not listed. The repository API is closed, unless `settings.json` sets `allow_open_repository` or you run the command as `mlserver`.

    Private keys never become part of the image. If the folder contains any and has no .dockerignore, the command writes one that excludes them. If your own .dockerignore does not exclude them, the command exits with code 1.
    """  # noqa: E501
    from .image.dockerfile import write

    allowed = _allowed_runtimes(allow_runtime, runtime_path, dev)
    raise typer.Exit(write(folder, include_dockerignore, force, allowed))


def build(
    folder: ModelFolder,
    tag: Annotated[str, typer.Option("--tag", "-t", help="Give the image this name.")],
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Build every layer again.")] = False,
    allow_runtime: AllowRuntime = None,
    runtime_path: RuntimePath = None,
    dev: TrustAll = None,
) -> None:
    """Build an image of a folder with Docker, Podman or Buildah.

    By default, models may use every class, because the folder may contain your own. With --no-dev or --allow-runtime, the image has a list of trusted runtimes.

    If `server dockerfile` wrote a Dockerfile into the folder, it is used with your edits, otherwise a temporary one.
    """  # noqa: E501
    from .image.dockerfile import build as run

    raise typer.Exit(run(folder, tag, no_cache, _allowed_runtimes(allow_runtime, runtime_path, dev)))


def _allowed_runtimes(
    paths: list[str] | None, files: list[str] | None, trusts_all: bool | None
) -> "AllowedRuntimes":
    from .image.allowed_runtimes import AllowedRuntimes

    if trusts_all and (paths or files):
        raise typer.BadParameter("--dev trusts every class; --allow-runtime and --runtime-path list them")
    return AllowedRuntimes(paths or (), files or (), is_limited=bool(paths) or trusts_all is False)
