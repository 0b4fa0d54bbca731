"""The banner at the start of a server: models and addresses."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from .. import __version__

if TYPE_CHECKING:
    from ..server.server import Server

COLUMNS = ("model", "version", "answers", "state")


def show(server: "Server", file: TextIO | None = None) -> None:
    """Print the models, their states and the addresses, by default to standard error."""
    # Without rich, which takes longer to import than the rest of the command line.
    print("\n".join(_rows(server)), file=file or sys.stderr, flush=True)


def _rows(server: "Server") -> Iterator[str]:
    yield f"inferstream {__version__}"
    yield from _models([tuple(map(str, row)) for row in server.application.registry.summary()])
    yield from _addresses(server)
    if server.settings.frontends > 1:
        yield f"{server.settings.frontends} front ends"
    if not server.application.access.repository_open:
        yield "the repository API is closed because the server listens beyond loopback"


def _models(rows: list[tuple[str, ...]]) -> Iterator[str]:
    if not rows:
        yield "no model was found"
        return
    table = [COLUMNS, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def address(server: "Server", name: str) -> str:
    """Scheme, host and port of a port by its name, as `REST`."""
    host, port = server.settings.host, server.ports[name]
    scheme = server.scheme("REST" if port == server.ports["REST"] else name)
    return f"{scheme}[{host}]:{port}" if ":" in host else f"{scheme}{host}:{port}"


def _addresses(server: "Server") -> Iterator[str]:
    settings, ports = server.settings, server.ports
    paths = {"REST": "/docs", "metrics": settings.metrics_endpoint or ""}
    if settings.metrics_endpoint and "metrics" not in ports:
        yield f"{'REST':<8} {address(server, 'REST')}{paths['REST']}"
        yield f"{'metrics':<8} {address(server, 'REST')}{paths['metrics']}"
        ports = {name: port for name, port in ports.items() if name != "REST"}
    for name in ports:
        yield f"{name:<8} {address(server, name)}{paths.get(name, '')}"
