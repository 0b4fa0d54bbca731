"""`server top`: its flags; `table` does the work."""

from typing import Annotated

import typer


def top(
    url: Annotated[str, typer.Argument(help="Server, at its REST or metrics port.")] = "localhost:8080",
    once: Annotated[bool, typer.Option("--once", help="Print one table and end.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    insecure: Annotated[bool, typer.Option("--insecure", help="Trust any certificate.")] = False,
) -> None:
    """Show the models of a running server and their numbers, live."""
    from ...clients.transport import Target
    from .table import run

    raise typer.Exit(run(Target(url, verify=not insecure), once, interval))
