"""`server keys`: commands that manage keys, and their options."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

HELP = """Create, list, revoke and rotate client keys.

The server requires keys if `keys_file` is set in the settings.json of the served folder, or next to the app. A relative path is resolved from the working folder. Exits with code 1 if the file is missing or invalid, or the id is unknown or expired. The file is replaced atomically, and only its owner can read it.
"""  # noqa: E501

app = typer.Typer(add_completion=False, help=HELP, no_args_is_help=True)

File = Annotated[
    Path | None,
    typer.Option(
        "--file", help="Use this key file.", show_default="keys_file of settings.json, else keys.json"
    ),
]


@app.command()
def add(
    principal: Annotated[str, typer.Option("--principal", help="Set the name of the client.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            help="Allow infer, stream, repository, metrics, docs or access; repeatable.",
            show_default="infer, stream",
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="Allow models that match this pattern; repeatable.", show_default="*"),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            help="Expire after a duration, such as 30d, or at a UTC time.",
            show_default="never",
        ),
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", help="Set a limit, such as requests_per_second=10; repeatable."),
    ] = None,
    file: File = None,
) -> None:
    """Create a key, and print it once."""
    scopes = scope or ["infer", "stream"]
    _run(lambda keys: keys.add(file, principal, scopes, model or ["*"], expires, limit or []))


@app.command("list")
def list_keys(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, file: File = None
) -> None:
    """List the keys of the file, without their hashes."""
    _run(lambda keys: keys.show_keys(file, as_json))


@app.command()
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="Revoke the key with this id.", show_default=False)],
    file: File = None,
) -> None:
    """Remove a key. Servers reject it within seconds."""
    _run(lambda keys: keys.revoke(file, id))


@app.command()
def rotate(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="Replace the key with this id.", show_default=False)
    ],
    overlap: Annotated[str, typer.Option("--overlap", help="Keep the old key valid for this long.")] = "1h",
    file: File = None,
) -> None:
    """Replace a key: create one with the same permissions, and print it once."""
    _run(lambda keys: keys.rotate(file, id, overlap))


@app.command()
def usage(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Read this usage file.", show_default="usage_file of settings.json"),
    ] = None,
) -> None:
    """Show requests, rejections, tokens and bytes by day and key."""
    _run(lambda keys: keys.show_usage(file, as_json))


def _run(command: Callable[[Any], None]) -> None:
    """Run a function of `command_file`.

    Exits with code 1 after a failure and with code 2 for an invalid option.
    """
    from inferstream.errors import InferstreamError, describe_failure

    from . import command_file as keys_file  # Imported lazily: other commands do not need it.

    try:
        command(keys_file)
    except InferstreamError as error:
        typer.echo(describe_failure(error.message), err=True)
        raise typer.Exit(1) from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
