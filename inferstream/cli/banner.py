"""The banner at the start of a server: models, addresses and, in a terminal, commands to paste."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from .. import __version__
from ..dataplane.access import is_loopback
from ..repository.artefacts import NO_MODEL as NO_ARTEFACT
from ..telemetry.console import is_terminal
from ..telemetry.logs import JSONFormatter
from .hints import hints

if TYPE_CHECKING:
    from ..server.server import Server

logger = logging.getLogger("inferstream.server")

COLUMNS = ("model", "version", "answers", "load", "state")

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that no client can connect to everywhere, and what a client here uses instead."""

NO_MODEL = "no model was found: no folder in {folder} has a model-settings.json"


def show(server: "Server", file: TextIO | None = None, pasted: bool | None = None) -> None:
    """Print the models, their states and the addresses, by default to standard error.

    `pasted` adds commands to paste, and how to stop; by default in a terminal.
    """
    if any(isinstance(handler.formatter, JSONFormatter) for handler in logging.getLogger().handlers):
        _log(server)
        return
    file = file or sys.stderr
    lines = [*_rows(server)]
    if is_terminal(file) if pasted is None else pasted:
        lines += _pasted(server)
    # Without rich, which takes longer to import than the rest of the command line.
    print("\n".join(lines), file=file, flush=True)


def _log(server: "Server") -> None:
    """Log the models and the addresses as one record."""
    models = [dict(zip(COLUMNS, row, strict=True)) for row in server.backend.registry.summary()]
    addresses = {name: address(server, name) for name in server.ports}
    fields = {"version": __version__, "models": models, "addresses": addresses}
    logger.info("serving", extra={"fields": fields})
    for note in (*_recognised(server), *_notes(server)):
        logger.info("%s", note)


def _rows(server: "Server") -> Iterator[str]:
    yield f"inferstream {__version__}"
    rows = [tuple(map(str, row)) for row in server.backend.registry.summary()]
    if rows:
        yield from _models(rows)
        yield from _recognised(server)
    if all(NO_ARTEFACT in row[-1] for row in rows):
        yield from _no_model(Path(server.settings.model_repository_root))
    yield f"page     {address(server, 'REST', reachable=True)}/"
    yield from _addresses(server)
    if server.settings.frontends > 1:
        yield f"{server.settings.frontends} front ends"
    yield from _notes(server)


def _notes(server: "Server") -> Iterator[str]:
    """What is open, or closed, to clients."""
    access = server.backend.access
    if not access.requires_credentials and not is_loopback(server.settings.host):
        yield "no keys: inference, metadata and metrics are open to whoever reaches this server"
    if not access.requires_credentials and not access.repository_open:
        yield (
            "repository API, access log, documentation and reflection are closed because the server listens "
            "beyond loopback"
        )


def _no_model(folder: Path) -> Iterator[str]:
    yield NO_MODEL.format(folder=folder)
    code = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    for path in code[:1]:
        yield f"  server start {path}    # serves the classes or the app in it"
    yield f"  server init {folder / 'my-model'}    # writes a model that runs"


def _pasted(server: "Server") -> Iterator[str]:
    commands = [*hints(server.backend.registry, address(server, "REST", reachable=True))]
    if commands:
        yield "\nTry, in another terminal:\n"
        for command in commands:
            yield f"  {command}\n"
    yield f"{'' if commands else chr(10)}Ctrl+C stops the server when its calls have ended; again: at once."


def _models(rows: list[tuple[str, ...]]) -> Iterator[str]:
    table = [COLUMNS, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _recognised(server: "Server") -> Iterator[str]:
    """By which files models without settings are known."""
    for (name, _), served in server.backend.registry.items():
        settings = served.execution.settings
        if settings.recognised is not None:
            yield f"{name} has no settings: {settings.recognised} says that {settings.implementation_} reads it"


def address(server: "Server", name: str, *, reachable: bool = False) -> str:
    """Scheme, host and port of a port by its name, as `REST`; `reachable` for a client on this machine."""
    host, port = server.settings.host, server.ports[name]
    if reachable:
        host = EVERYWHERE.get(host, host)
    shared = name == "metrics" and port == server.ports["REST"]
    scheme = server.scheme("REST" if shared else name)
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
