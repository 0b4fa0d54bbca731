"""`server infer`: its flags and their variables, which are MLServer's; `batch` does the work."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def _variables(name: str) -> list[str]:
    return [f"INFERSTREAM_INFER_{name}", f"MLSERVER_INFER_{name}"]


def infer(
    model_name: Annotated[
        str,
        typer.Option(
            "--model-name", "-m", envvar=_variables("MODEL_NAME"), show_envvar=False, help="Model to ask."
        ),
    ],
    input_data_path: Annotated[
        Path,
        typer.Option(
            "--input-data-path",
            "-i",
            envvar=_variables("INPUT_DATA_PATH"),
            show_envvar=False,
            help="Requests, one a line.",
        ),
    ],
    output_data_path: Annotated[
        Path,
        typer.Option(
            "--output-data-path",
            "-o",
            envvar=_variables("OUTPUT_DATA_PATH"),
            show_envvar=False,
            help="Answers, one a line.",
        ),
    ],
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            "-u",
            envvar=_variables("URL"),
            show_envvar=False,
            help="Server; localhost:8080, over gRPC localhost:8081.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", "-w", envvar=_variables("WORKERS"), min=1, show_envvar=False, help="Calls at a time."
        ),
    ] = 10,
    retries: Annotated[
        int,
        typer.Option(
            "--retries",
            "-r",
            envvar=_variables("RETRIES"),
            min=0,
            show_envvar=False,
            help="Further attempts.",
        ),
    ] = 3,
    batch_size: Annotated[
        int,
        typer.Option(
            "--batch-size",
            "-s",
            envvar=_variables("BATCH_SIZE"),
            min=1,
            show_envvar=False,
            help="Lines in one call.",
        ),
    ] = 1,
    binary_data: Annotated[
        bool,
        typer.Option(
            "--binary-data",
            "-b",
            envvar=_variables("BINARY_DATA"),
            show_envvar=False,
            help="Send raw tensors.",
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            envvar=_variables("VERBOSE"),
            show_envvar=False,
            help="Tell of failures and retries.",
        ),
    ] = False,
    extra_verbose: Annotated[
        bool,
        typer.Option(
            "--extra-verbose",
            "-vv",
            envvar=_variables("EXTRA_VERBOSE"),
            show_envvar=False,
            help="Tell of every call.",
        ),
    ] = False,
    transport: Annotated[
        Literal["rest", "grpc"],
        typer.Option(
            "--transport", "-t", envvar=_variables("TRANSPORT"), show_envvar=False, help="Protocol."
        ),
    ] = "rest",
    request_headers: Annotated[
        list[str] | None,
        typer.Option(
            "--request-headers",
            "-H",
            envvar=_variables("REQUEST_HEADERS"),
            show_envvar=False,
            help="'Name: value', repeatedly.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            min=0.001,
            envvar=[*_variables("CONNECTION_TIMEOUT"), "INFERSTREAM_INFER_TIMEOUT"],
            help="Seconds a call may take.",
        ),
    ] = 60,
    batch_interval: Annotated[
        float,
        typer.Option(
            envvar=_variables("BATCH_INTERVAL"),
            min=0,
            show_envvar=False,
            help="Seconds between a worker's calls.",
        ),
    ] = 0,
    batch_jitter: Annotated[
        float,
        typer.Option(
            envvar=_variables("BATCH_JITTER"),
            min=0,
            show_envvar=False,
            help="At most so many more, at random.",
        ),
    ] = 0,
    use_ssl: Annotated[
        bool, typer.Option("--use-ssl", envvar=_variables("USE_SSL"), show_envvar=False, help="Use TLS.")
    ] = False,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", envvar=_variables("INSECURE"), show_envvar=False, help="Trust any certificate."
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", envvar=_variables("RESUME"), show_envvar=False, help="Keep the answers in the output."
        ),
    ] = False,
) -> None:
    """Ask a server for every request of a JSONL file.

    Each flag has a variable as well: INFERSTREAM_INFER_MODEL_NAME, MLSERVER_INFER_MODEL_NAME and so on.
    """
    from ..clients.batch import Rate
    from ..clients.transport import Target
    from ..errors import InvalidSettings
    from .batch import PORTS, Files, headers_of, run

    try:
        headers = headers_of(request_headers or ())
    except InvalidSettings as error:
        raise typer.BadParameter(error.message) from None
    target = Target(
        url=url or f"localhost:{PORTS[transport]}",
        model=model_name,
        timeout=timeout,
        binary=binary_data,
        ssl=use_ssl,
        verify=not insecure,
        connections=workers,
    )
    files = Files(input_data_path, output_data_path, batch_size, resume)
    pace = Rate(workers, retries, batch_interval, batch_jitter, headers)
    raise typer.Exit(run(transport, target, files, pace, 2 if extra_verbose else int(verbose)))
