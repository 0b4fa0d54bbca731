"""`server init`: writes a working model folder from a bundled template."""

import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from urllib.parse import quote

import typer

from ..errors import InvalidSettings
from ..repository.folder import check_name
from .refusals import report_errors

README = "README.md"
TEMPLATES = files(__package__) / "templates"


@report_errors
def run(folder: Path, template: str) -> int:
    """Write `template` into `folder`, and print how to call it. Returns 1 if nothing was written."""
    typer.echo(f"wrote {', '.join(_write(folder, template))} to {folder}\n", err=True)
    commands = (folder / README).read_text().partition("```console\n")[2].partition("```")[0]
    typer.echo(commands.rstrip())
    return 0


def templates() -> list[str]:
    """Return the names of the bundled templates."""
    return sorted(entry.name for entry in TEMPLATES.iterdir() if not entry.name.startswith(("_", ".")))


def _write(folder: Path, template: str) -> list[str]:
    if template not in templates():
        raise InvalidSettings(f'there is no template "{template}"; there are: {", ".join(templates())}')
    name = folder.resolve().name
    check_name(name, str(folder))
    entries = (entry for entry in (TEMPLATES / template).iterdir() if entry.is_file())
    sources = sorted(entries, key=lambda entry: entry.name)
    there = [source.name for source in sources if (folder / source.name).exists()]
    if there:
        raise InvalidSettings(f"{folder} has {', '.join(there)} already; nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    for source in sources:
        # "x" also fails if the file was created in the meantime
        with (folder / source.name).open("x") as file:
            file.write(_fill_template(source, folder, name))
    return [source.name for source in sources]


def _fill_template(source: Traversable, folder: Path, name: str) -> str:
    text = source.read_text("utf-8")
    if source.name != README:
        return text
    values = {"name": name, "model": quote(name), "folder": shlex.quote(str(folder))}
    for key, value in values.items():
        text = text.replace(f"{{{{{key}}}}}", value)
    return text
