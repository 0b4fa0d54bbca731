"""`server keys`: the commands and their options."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(add_completion=False, help="Make, list, revoke and replace keys.", no_args_is_help=True)

File = Annotated[
    Path | None,
    typer.Option(
        "--file", help="File of keys; by default `keys_file` of settings.json here, else keys.json."
    ),
]


@app.command()
def add(
    principal: Annotated[str, typer.Option("--principal", help="Who calls with the key.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="infer, stream, repository, metrics, docs, access; repeatable."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Models as a pattern; repeatable.")
    ] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="30d, or a time in UTC.")] = None,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", help="Such as requests_per_second=10; repeatable.")
    ] = None,
    file: File = None,
) -> None:
    """Make a key and print it, once. By default it may infer and stream with all models."""
    scopes = scope or ["infer", "stream"]
    _run(lambda keys: keys.add(file, principal, scopes, model or ["*"], expires, limit or []))


@app.command("list")
def list_keys(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, file: File = None
) -> None:
    """List the keys of the file, without their hashes."""
    _run(lambda keys: keys.show_keys(file, as_json))


@app.command()
def revoke(id: Annotated[str, typer.Argument(help="Id of the key.")], file: File = None) -> None:
    """Remove a key. Servers refuse it within seconds."""
    _run(lambda keys: keys.revoke(file, id))


@app.command()
def rotate(
    id: Annotated[str, typer.Argument(help="Id of the key.")],
    overlap: Annotated[str, typer.Option("--overlap", help="For how long the old key still works.")] = "1h",
    file: File = None,
) -> None:
    """Make a key with the rights of another one and print it, once. The other one expires soon."""
    _run(lambda keys: keys.rotate(file, id, overlap))


@app.command()
def usage(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="By default `usage_file` of settings.json here.")
    ] = None,
) -> None:
    """Show what keys have used by day, as the server last saved it."""
    _run(lambda keys: keys.show_usage(file, as_json))


def _run(command: Callable[[Any], None]) -> None:
    """Run a command of `keys_file`. Ends with 1 after a failure, and with 2 for a wrong option."""
    from ..errors import InferstreamError
    from . import keys_file  # late: the other commands need none of it

    try:
        command(keys_file)
    except InferstreamError as error:
        typer.echo(f"error: {error.message}", err=True)
        raise typer.Exit(1) from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
