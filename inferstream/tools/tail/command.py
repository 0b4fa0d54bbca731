"""`server tail`: its flags; `follow` does the work."""

from typing import Annotated

import typer


def tail(
    url: Annotated[str, typer.Argument(help="Server, at its REST port.")] = "localhost:8080",
    model: Annotated[str | None, typer.Option("--model", "-m", help="Calls of this model only.")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="Calls that failed only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    insecure: Annotated[bool, typer.Option("--insecure", help="Trust any certificate.")] = False,
) -> None:
    """Show the calls of a running server as they end."""
    from ...clients.transport import Target
    from .follow import run

    raise typer.Exit(run(Target(url, verify=not insecure), model, errors, as_json))
