"""What a person sees when the server is up: the models and where they listen."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from .. import __version__

if TYPE_CHECKING:
    from ..server.server import Server


def show(server: "Server", console: Console) -> None:
    """Print the models, their state, and the addresses."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("model", "version", "answers", "state"):
        table.add_column(column)
    for row in server.registry.summary():
        table.add_row(*row)
    host = server.settings.host
    shown = f"[{host}]" if ":" in host else host
    console.print(f"[bold]inferstream {__version__}[/bold]", highlight=False)
    if table.row_count:
        console.print(table, highlight=False)
    else:
        console.print("no model was found", highlight=False)
    for name, port in server.ports.items():
        path = server.settings.metrics_endpoint if name == "metrics" else "/docs" if name == "REST" else ""
        console.print(f"{name:<8} {server.scheme(name)}{shown}:{port}{path}", highlight=False, markup=False)
    if server.settings.frontends > 1:
        console.print(f"{server.settings.frontends} front ends", highlight=False)
    if not server.access.repository_open:
        console.print(
            "the repository API is closed because the server listens beyond loopback", highlight=False
        )
