"""The command line: `server` and `inferstream` are the same program."""

import gc
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .commands import BUILD, SERVE, Commands, StartCommand

app = typer.Typer(
    name="server",
    cls=Commands,
    help="Serve models over the V2 / Open Inference Protocol, with streaming.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

TARGETS = """Serve models until SIGTERM or Ctrl+C.

TARGET is one of these:

- a folder: each folder in it with a `model-settings.json`, or the only model in it

- a folder with an `app.py`, or with the files of one model, such as `model.joblib`

- `app.py`, `src/app.py:name` or `module:app`: the functions of an app

- `model.py`: each model class in the file, under the name of the class

- `iris.joblib`: the model in the file, under the name of the file

- the remote URI of a folder: hf://, s3://, gs://, az://, https:// or oci://

If a `model-settings.json` next to a file refers to it, the folder is served.

Ctrl+C lets calls in progress finish. A second Ctrl+C stops the server at once.
"""

network = partial(typer.Option, rich_help_panel="Network")
processes = partial(typer.Option, rich_help_panel="Processes")
logs = partial(typer.Option, rich_help_panel="Logging")
loading = partial(typer.Option, rich_help_panel="Models")
development = partial(typer.Option, rich_help_panel="Development")
compatibility = partial(typer.Option, rich_help_panel="Compatibility")

Host = Annotated[
    str | None, network(help="Listen on this address; 0.0.0.0 means all.", show_default="127.0.0.1")
]
Port = Annotated[
    int | None, network(help="Set the REST and SSE port; 0 picks a free port.", show_default="8080")
]
GrpcPort = Annotated[int | None, network(help="Set the gRPC port; 0 picks a free port.", show_default="8081")]
MetricsPort = Annotated[
    int | None, network(help="Set the metrics port; 0 picks a free port.", show_default="8082")
]
HttpPort = Annotated[int | None, typer.Option("--http-port", hidden=True)]

AppTarget = Annotated[
    str, typer.Argument(metavar="TARGET", help="Use this app: app.py or module:app.", show_default=False)
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"inferstream, version {__version__}")
        raise typer.Exit


def _with_dashes(flag: str) -> str:
    """Replace underscores in a flag with dashes, because KServe uses `--model_name`."""
    return flag.replace("_", "-")


def _file(help: str) -> Any:
    """Return an option that accepts an existing file."""
    return network(help=help, show_default=False, exists=True, dir_okay=False)


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Serve models over the V2 / Open Inference Protocol, with streaming."""


MODELS_DIR = ["INFERSTREAM_MODELS_DIR", "MLSERVER_MODELS_DIR"]
"""The variables for the target in images, which have no arguments."""

Target = Annotated[
    str,
    typer.Argument(metavar="TARGET", help="Serve this folder, app, model file or URI.", envvar=MODELS_DIR),
]
TlsCert = Annotated[Path | None, _file("Use this certificate (PEM, with its chain) on all ports.")]
Workers = Annotated[int | None, processes(help="Run models in this many worker processes.", show_default="0")]
Frontends = Annotated[
    int | None, processes(help="Share the ports among this many processes.", show_default="1")
]
AccessLog = Annotated[
    bool | None,
    logs(
        "--access-log/--no-access-log",
        help="Write a line for each call.",
        show_default="in a terminal",
    ),
]
Debug = Annotated[
    bool | None,
    logs("--debug", help="Log at debug level with whole tracebacks; show exceptions to local clients."),
]
Strict = Annotated[
    bool | None,
    loading("--strict", help="Exit with code 1 if a model, plug-in, setting or variable is invalid."),
]
Reload = Annotated[
    bool,
    development("--reload", help="Reload models when their files change; show exceptions like --debug."),
]
ModelName = Annotated[str | None, compatibility(help="Set the name of the only model in the folder.")]


@app.command(
    cls=StartCommand,
    help=TARGETS,
    rich_help_panel=SERVE,
    context_settings={"token_normalize_func": _with_dashes},
)
def start(
    context: typer.Context,
    target: Target = ".",
    host: Host = None,
    port: Port = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    metrics_port: MetricsPort = None,
    one_port: Annotated[bool, network("--one-port", help="Serve gRPC and metrics on the REST port.")] = False,
    tls_cert: TlsCert = None,
    tls_key: Annotated[
        Path | None, _file("Use this private key, unless the certificate file contains it.")
    ] = None,
    workers: Workers = None,
    frontends: Frontends = None,
    access_log: AccessLog = None,
    log_json: Annotated[
        bool | None, logs("--log-json", help="Write logs as one JSON object per line.")
    ] = None,
    debug: Debug = None,
    strict: Strict = None,
    reload: Reload = False,
    model_name: ModelName = None,
) -> None:
    gc.disable()  # imports create no garbage, and collections would take a tenth of their time
    from .flags import Flags, tls_options
    from .start import run

    settings = {
        "host": host,
        "port": port,
        "http_port": http_port,
        "grpc_port": grpc_port,
        "metrics_port": metrics_port,
        "parallel_workers": workers,
        "frontends": frontends,
        "strict": strict,
        "access_log": access_log,
        "use_structured_logging": log_json,
        "debug": debug,
    }
    tls = tls_options(tls_cert, tls_key)
    raise typer.Exit(run(target, Flags(settings, context.obj, tls, one_port, model_name), reload))


@app.command(rich_help_panel=SERVE)
def demo(
    host: Host = None,
    port: Port = None,
    http_port: HttpPort = None,
    grpc_port: GrpcPort = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Serve a small built-in language model, and print example calls."""
    gc.disable()
    from .demo import run

    flags = {
        "host": host,
        "port": port,
        "http_port": http_port,
        "grpc_port": grpc_port,
        "metrics_port": metrics_port,
    }
    raise typer.Exit(run(flags))


INIT = """Write a working model folder, and print how to call it.

The model is named after the folder. If one of the files exists, nothing is written.

Templates: `predict` (the mean of each row), `app` (two functions), `stream` (text, word by word), `steps` (a counter whose streams advance together), `llm` (a language model) and `sklearn` (your `model.joblib`, or a classifier of iris flowers).
"""  # noqa: E501  # one paragraph, which the terminal wraps


@app.command(help=INIT, rich_help_panel=BUILD)
def init(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Write to this folder; existing files are never replaced."),
    ] = Path(),
    template: Annotated[str, typer.Option("--template", "-t", help="Use this template.")] = "predict",
) -> None:
    from .init import run

    raise typer.Exit(run(folder, template))


MODELS = """List the models that TARGET would load, and their problems.

Exits with code 1 if it finds invalid JSON, unknown fields, wrong values, missing classes or environments, or names that are used twice. Model code is read but not run, unless you use --import.
"""  # noqa: E501


@app.command(help=MODELS, rich_help_panel=BUILD)
def models(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="Read this model folder or app.", show_default=False, envvar=MODELS_DIR
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: ok, models and problems.")] = False,
    importing: Annotated[
        bool, typer.Option("--import", help="Import the code of each model, and report its errors.")
    ] = False,
) -> None:
    from .models import run

    raise typer.Exit(run(target, as_json, importing))


@app.command(rich_help_panel=BUILD)
def proto(
    target: AppTarget,
    output_dir: Annotated[Path, typer.Option(help="Write the .proto file to this folder.")] = Path(),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a file would change.")
    ] = False,
) -> None:
    """Write the typed gRPC service of an app, and the lock file for its fields."""
    from .proto import run

    raise typer.Exit(run(target, output_dir, check))
