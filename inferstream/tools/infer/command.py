"""`server infer`: its flags and their variables, which are MLServer's; `batch` does the work."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def _flag(name: str, short: str | None = None, *, help: str, **options: Any) -> Any:
    """The flag `--name`, with a variable of ours and one of MLServer's."""
    variable = name.replace("-", "_").upper()
    names = [f"--{name}"] if short is None else [f"--{name}", short]
    variables = [f"INFERSTREAM_INFER_{variable}", f"MLSERVER_INFER_{variable}"]
    return typer.Option(*names, envvar=variables, show_envvar=False, help=help, **options)


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
    from ...clients.transport import Target
    from ...errors import InvalidSettings
    from .batch import Rate
    from .run import PORTS, Files, headers_of, run

    try:
        headers = headers_of(request_headers or ())
    except InvalidSettings as error:
        raise typer.BadParameter(error.message) from None
    target = Target(
        url=url or f"localhost:{PORTS[transport]}",
        timeout=timeout,
        binary=binary_data,
        ssl=use_ssl,
        verify=not insecure,
        connections=workers,
    )
    files = Files(input_data_path, output_data_path, batch_size, resume)
    pace = Rate(workers, retries, batch_interval, batch_jitter, headers)
    raise typer.Exit(run(transport, target, model_name, files, pace, 2 if extra_verbose else int(verbose)))
