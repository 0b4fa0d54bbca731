"""`server models`: lists the models that a server would load, and their problems."""

import json
import logging
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..repository.inspection import Inspection, inspect_folder


def run(folder: Path, as_json: bool, importing: bool) -> int:
    """Show the models in `folder`. Returns 1 if there is a problem."""
    if not folder.is_dir():
        typer.echo(f"error: {folder} is not a folder", err=True)
        return 1
    # The warnings of the settings repeat the findings.
    logging.getLogger("inferstream.settings").setLevel(logging.ERROR)
    inspection = inspect_folder(folder, importing)
    if as_json:
        typer.echo(json.dumps({"ok": inspection.clean, **asdict(inspection)}, indent=2))
    else:
        _show(inspection)
    return 0 if inspection.clean else 1


def _show(inspection: Inspection) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 1000  # no line breaks in paths in a pipe
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("model", "version", "implementation", "workers", "from"):
        table.add_column(column, overflow="fold")
    for model in inspection.models:
        row = (model.name, model.version, model.implementation, str(model.workers), model.source)
        table.add_row(*(Text(cell) for cell in row), style="red" if model.problems else None)
    console.print(table if inspection.models else "no model was found")
    problems = [*inspection.problems]
    for model in inspection.models:
        problems += [f"{model.source}: {problem}" for problem in model.problems]
    if problems:
        console.print()
    for problem in problems:
        console.print(Text(problem, style="red"))
