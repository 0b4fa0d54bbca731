"""`server models`: lists the models that a server would load, with their problems."""

import json
import logging
from dataclasses import asdict

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..repository.inspection import Inspection, inspect_app, inspect_folder
from ..repository.target import resolve_target
from .refusals import report_errors


@report_errors
def run(target: str, as_json: bool, importing: bool) -> int:
    """Print the models of a folder or an app. Returns 1 if there are problems."""
    folder, app = resolve_target(target)
    # The warnings from loading settings would repeat the problems in the list.
    logging.getLogger("inferstream.settings").setLevel(logging.ERROR)
    folder = folder.resolve()
    inspection = inspect_folder(folder, importing) if app is None else inspect_app(app, folder)
    if as_json:
        typer.echo(json.dumps({"ok": inspection.clean, **asdict(inspection)}, indent=2))
    else:
        _show(inspection)
    return 0 if inspection.clean else 1


def _show(inspection: Inspection) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 1000  # no line breaks in paths if the output is a pipe
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
