"""`server proto`: writes the typed gRPC service of an app as a `.proto` file, with a lock file."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from ..errors import InvalidSettings
from ..functions.app import App
from ..functions.lock import Lock, LockedField, format_lock, merge_fields
from ..protos.typed import CLASSIC_FILE, build_method
from ..protos.typed_text import write_proto
from ..repository.target import resolve_target
from .refusals import report_errors


class Exported(NamedTuple):
    """The expected contents of an app's files, and the existing lock."""

    proto: Path
    text: str
    lock_file: Path
    before: Lock
    lock: Lock


@report_errors
def run(target: str, output_dir: Path, check: bool) -> int:
    """Write the files of an app. With `check`, write nothing, and return 1 if a file would change."""
    exported = _export(target, output_dir)
    files = {exported.proto: exported.text, exported.lock_file: format_lock(exported.lock)}
    if check:
        differences = [*_differences(exported)]
        for difference in differences:
            typer.echo(f"error: {difference}", err=True)
        return 1 if differences else 0
    output_dir.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        if _read_text(file) != text:
            file.write_text(text, "utf-8")
            typer.echo(f"wrote {_shorten_path(file)}")
        else:
            typer.echo(f"{_shorten_path(file)} has not changed")
    return 0


def _export(target: str, output_dir: Path) -> Exported:
    location = resolve_target(target)
    if location.code is None or ":" not in location.code:
        what = "a folder of models" if location.code is None else "a model"
        raise InvalidSettings(f"{target} is {what}, and only an app (app.py or module:app) has typed RPCs")
    app, path = location.load_app()
    lock_file = app.lock_file
    if lock_file is None:
        raise InvalidSettings(f'app "{path}": its module has no variable that holds it')
    module = path.partition(":")[0].rpartition(".")[2]
    lock = _read_fields(app)
    methods = [
        method
        for function in app
        if (method := build_method(function.name, function.signature())) is not None
    ]
    if not methods:
        raise InvalidSettings(f'app "{path}": no function has a typed RPC')
    removed = {
        model: {name: field.number for name, field in fields.items() if field.removed}
        for model, fields in lock.items()
    }
    title = f"Written by `server proto` from {path}; a change here is lost."
    name = CLASSIC_FILE if app.classic else f"{module}.proto"
    return Exported(output_dir / name, write_proto(methods, removed, title), lock_file, app.lock or {}, lock)


def _read_fields(app: App) -> Lock:
    """Return the fields of every model, including models that the app no longer has."""
    lock = {model: merge_fields(fields, {}) for model, fields in (app.lock or {}).items()}
    for function in app:
        if app.rpc_of(function) is not None:
            lock[function.name] = app.fields_of(function)
    return lock


def _shorten_path(file: Path) -> Path:
    """Return a path relative to the working directory, if it is inside."""
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def _read_text(file: Path) -> str | None:
    try:
        return file.read_text("utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _differences(exported: Exported) -> Iterator[str]:
    """Yield the changes, one line for each field in the lock file and one for the `.proto` file."""
    if _read_text(exported.lock_file) != format_lock(exported.lock):
        changes = [*_changes(exported.before, exported.lock)] or ["its form"]
        yield from (f"{_shorten_path(exported.lock_file)} would change: {change}" for change in changes)
    text = _read_text(exported.proto)
    if text is None:
        yield f"{_shorten_path(exported.proto)} is missing; `server proto` without --check writes it, to --output-dir"
    elif text != exported.text:
        yield f"{_shorten_path(exported.proto)} would change: {_first_change(text, exported.text)}"


def _changes(before: Lock, after: Lock) -> Iterator[str]:
    for model, fields in after.items():
        known = before.get(model, {})
        for name, field in fields.items():
            if known.get(name) != field:
                yield f'argument "{name}" of model "{model}" is {_state(known.get(name), field)}'


def _state(before: LockedField | None, field: LockedField) -> str:
    if field.removed:
        return f"gone, and number {field.number} stays reserved"
    return f"{'new' if before is None else 'back'}, {field.type} with number {field.number}"


def _first_change(before: str, after: str) -> str:
    old, new = before.splitlines(), after.splitlines()
    for number, line in enumerate(new):
        if number >= len(old) or old[number] != line:
            return f"line {number + 1} would be {line.strip()!r}"
    return f"line {len(new) + 1} would be gone"
