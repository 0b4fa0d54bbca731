"""The startup banner: models, addresses and, in a terminal, example commands."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from .. import __version__
from ..dataplane.access import is_loopback
from ..errors import describe_failure
from ..repository.artefacts import NO_MODEL as NO_ARTEFACT
from ..telemetry.console import PLAIN, RED, is_terminal, supports_colours
from ..telemetry.logs import JSONFormatter
from ..types import State
from .hints import hints

if TYPE_CHECKING:
    from ..server.server import Server

logger = logging.getLogger("inferstream.server")

COLUMNS = ("model", "version", "type", "load", "state")

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Wildcard listen addresses, and the loopback address that a local client uses instead."""

FAILED = State.UNAVAILABLE.value

NO_MODEL = "no model was found: no folder in {folder} has a model-settings.json"


def show(server: "Server", file: TextIO | None = None, pasted: bool | None = None) -> None:
    """Print the models, their states and the addresses, by default to standard error.

    With `pasted`, also print example commands and how to stop the server. By default, this depends on whether
    `file` is a terminal. If logs are JSON, log one record instead.
    """
    if any(isinstance(handler.formatter, JSONFormatter) for handler in logging.getLogger().handlers):
        _log_banner(server)
        return
    file = file or sys.stderr
    lines = [*_rows(server)]
    if is_terminal(file) if pasted is None else pasted:
        lines += _suggest_commands(server)
    if failures := describe_failures(server):
        lines.append(f"{RED}{failures}{PLAIN}" if supports_colours(file) else failures)
    # rich is not used here, because it takes longer to import than the rest of the command line.
    print("\n".join(lines), file=file, flush=True)


def _log_banner(server: "Server") -> None:
    """Log the models and addresses as one record."""
    models = [dict(zip(COLUMNS, row, strict=True)) for row in server.backend.registry.summary()]
    addresses = {name: address(server, name) for name in server.ports}
    fields = {"version": __version__, "models": models, "addresses": addresses}
    logger.info("serving", extra={"fields": fields})
    for note in (*_list_recognised_models(server), *_notes(server)):
        logger.info("%s", note)
    if failures := describe_failures(server):
        logger.error("%s", failures.removeprefix("error: ").replace("\n", "; "))


def _rows(server: "Server") -> Iterator[str]:
    yield f"inferstream {__version__}"
    rows = [tuple(map(str, row)) for row in server.backend.registry.summary()]
    if rows:
        yield from _models(
            [(*row[:-1], FAILED if row[-1].startswith(f"{FAILED}: ") else row[-1]) for row in rows]
        )
        yield from _list_recognised_models(server)
    if all(NO_ARTEFACT in row[-1] for row in rows):
        yield from _no_model(Path(server.settings.model_repository_root))
    yield f"page     {address(server, 'REST', reachable=True)}/"
    yield from _addresses(server)
    if server.settings.frontends > 1:
        yield f"{server.settings.frontends} front ends"
    yield from _notes(server)


def describe_failures(server: "Server") -> str:
    """Return a message about the models that failed to load, with the next step, or "" if all loaded."""
    rows = server.backend.registry.summary()
    reasons = {
        f"{name}:{version}" if version else name: state.removeprefix(f"{FAILED}: ").removeprefix(
            f"Model {name} did not load: "
        )
        for name, version, _, _, state in rows
        if state.startswith(f"{FAILED}: ") and NO_ARTEFACT not in state
    }
    if not reasons:
        return ""
    listed = "".join(f"\n  {name}: {reason}" for name, reason in reasons.items())
    one = next(iter(f" {name}: {reason}" for name, reason in reasons.items()))
    models = "1 model" if len(rows) == 1 else f"{len(rows)} models"
    step = (
        "correct the code and save the file; the server loads the model again"
        if server.settings._reloads
        else "correct the code and start again; `--reload` loads saved files, `--strict` exits on a failure"
    )
    failure = f"{len(reasons)} of {models} failed to load:{one if len(reasons) == 1 else listed}"
    return f"{describe_failure(failure)}\nhint: {step}"


def _notes(server: "Server") -> Iterator[str]:
    """Yield notes about access without keys."""
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


def _suggest_commands(server: "Server") -> Iterator[str]:
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


def _list_recognised_models(server: "Server") -> Iterator[str]:
    """Yield a note for each model without settings, with the file that determined its runtime."""
    for (name, _), served in server.backend.registry.items():
        settings = served.execution.settings
        if settings.recognised is not None:
            yield f"{name} has no settings: {settings.recognised} says that {settings.implementation_} reads it"


def address(server: "Server", name: str, *, reachable: bool = False) -> str:
    """Return the URL or address of a port by its name, such as `REST`.

    With `reachable`, a wildcard address is replaced by one that a client on this machine can use.
    """
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
