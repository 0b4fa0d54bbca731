"""The command line: `server` and `inferstream` are the same program."""

import gc
from pathlib import Path
from typing import Annotated, Any

import typer

from .commands import Commands, StartCommand

app = typer.Typer(
    name="server",
    cls=Commands,
    help="A streaming model server for the V2 / Open Inference Protocol.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"inferstream, version {__version__}")
        raise typer.Exit


def _dashed(flag: str) -> str:
    """A flag in the spelling of this command: KServe writes `--model_name`."""
    return flag.replace("_", "-")


Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
GrpcPort = Annotated[int | None, typer.Option(help="Port of gRPC.")]
MetricsPort = Annotated[int | None, typer.Option(help="Port of the metrics.")]


def _file(help: str) -> Any:
    """A flag that names a file which is there."""
    return typer.Option(help=help, show_default=False, exists=True, dir_okay=False)


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A streaming model server for the V2 / Open Inference Protocol."""


@app.command(cls=StartCommand, context_settings={"token_normalize_func": _dashed})
def start(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            help="Folder of models, or of one model, its remote URI, or an app: module:app or app.py."
        ),
    ],
    model_name: Annotated[
        str | None, typer.Option(help="Name of the folder's only model, whatever its settings say.")
    ] = None,
    host: Host = None,
    http_port: Annotated[int | None, typer.Option(help="Port of REST and SSE.")] = None,
    grpc_port: GrpcPort = None,
    one_port: Annotated[
        bool, typer.Option("--one-port", help="Serve gRPC at REST's port, and metrics too.")
    ] = False,
    metrics_port: MetricsPort = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes; 0 for none.")] = None,
    frontends: Annotated[int | None, typer.Option(help="Processes that share the ports.")] = None,
    strict: Annotated[bool | None, typer.Option("--strict", help="End when a model fails to load.")] = None,
    reload: Annotated[bool, typer.Option("--reload", help="Reload models when their files change.")] = False,
    access_log: Annotated[
        bool | None,
        typer.Option(
            "--access-log/--no-access-log",
            help="Show a line for each call; by default in a terminal only.",
            show_default=False,
        ),
    ] = None,
    log_json: Annotated[bool | None, typer.Option("--log-json", help="Log one JSON object a line.")] = None,
    tls_cert: Annotated[Path | None, _file("Certificate of all ports (PEM), with its chain.")] = None,
    tls_key: Annotated[Path | None, _file("Its private key, if that is a file of its own.")] = None,
    debug: Annotated[
        bool | None, typer.Option("--debug", help="Log at debug level, with whole tracebacks.")
    ] = None,
) -> None:
    """Serve TARGET until SIGTERM or Ctrl-C.

    TARGET is a folder of models, the folder of one model, the remote URI of such a folder (hf://, s3://, gs://,
    az://, https://, oci://), an app (module:app or app.py), or a file with a class of models.
    """
    gc.disable()  # nothing that imports make is garbage, and looking for it is a tenth of their time
    from .flags import Flags, tls_options
    from .start import run

    settings = {
        "host": host,
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


@app.command()
def demo(
    host: Host = None,
    http_port: Annotated[
        int | None, typer.Option("--http-port", "--port", help="Port of REST and SSE.")
    ] = None,
    grpc_port: GrpcPort = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Serve a small language model of this package, and print lines that call it."""
    gc.disable()
    from .demo import run

    flags = {"host": host, "http_port": http_port, "grpc_port": grpc_port, "metrics_port": metrics_port}
    raise typer.Exit(run(flags))


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where to write; files there are never replaced.")] = Path(),
    template: Annotated[
        str, typer.Option("--template", "-t", help="app, predict, stream, steps, llm or sklearn.")
    ] = "predict",
) -> None:
    """Write a model folder that runs, and say how to call it."""
    from .init import run

    raise typer.Exit(run(folder, template))


@app.command()
def models(
    target: Annotated[
        str, typer.Argument(help="Folder of models, or of one model, or an app: module:app or app.py.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    importing: Annotated[bool, typer.Option("--import", help="Import each model's code as well.")] = False,
) -> None:
    """List what TARGET would load, and what is wrong with it."""
    from .models import run

    raise typer.Exit(run(target, as_json, importing))


@app.command()
def proto(
    target: Annotated[str, typer.Argument(help="An app: module:app or app.py.")],
    output_dir: Annotated[Path, typer.Option(help="Folder of the .proto file.")] = Path(),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a file would change.")
    ] = False,
) -> None:
    """Write the typed gRPC service of TARGET as a .proto file, and the lock file of its field numbers."""
    from .proto import run

    raise typer.Exit(run(target, output_dir, check))
