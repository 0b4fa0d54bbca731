"""`server proto`: writes the typed gRPC service of an app as a `.proto` file, and the lock file of its fields."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from ..errors import InvalidSettings
from ..functions.app import App
from ..functions.lock import Lock, LockedField, merged, written
from ..protos.typed import CLASSIC_FILE, method_of
from ..protos.typed_text import proto_of
from ..repository.target import targeted
from .refusals import told


class Exported(NamedTuple):
    """What an app's files should hold, and the lock that was there."""

    proto: Path
    text: str
    lock_file: Path
    before: Lock
    lock: Lock


@told
def run(target: str, output_dir: Path, check: bool) -> int:
    """Write the files of an app. With `check`, write nothing and return 1 if one of them would change."""
    exported = _export(target, output_dir)
    files = {exported.proto: exported.text, exported.lock_file: written(exported.lock)}
    if check:
        differences = [*_differences(exported)]
        for difference in differences:
            typer.echo(f"error: {difference}", err=True)
        return 1 if differences else 0
    output_dir.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        if _text_of(file) != text:
            file.write_text(text, "utf-8")
            typer.echo(f"wrote {_shown(file)}")
        else:
            typer.echo(f"{_shown(file)} has not changed")
    return 0


def _export(target: str, output_dir: Path) -> Exported:
    location = targeted(target)
    if location.code is None or ":" not in location.code:
        what = "a folder of models" if location.code is None else "a model"
        raise InvalidSettings(f"{target} is {what}, and only an app (app.py or module:app) has typed RPCs")
    app, path = location.load_app()
    lock_file = app.lock_file
    if lock_file is None:
        raise InvalidSettings(f'app "{path}": its module has no variable that holds it')
    module = path.partition(":")[0].rpartition(".")[2]
    lock = _lock_of(app)
    methods = [
        method for function in app if (method := method_of(function.name, function.signature())) is not None
    ]
    if not methods:
        raise InvalidSettings(f'app "{path}": no function has a typed RPC')
    removed = {
        model: {name: field.number for name, field in fields.items() if field.removed}
        for model, fields in lock.items()
    }
    title = f"Written by `server proto` from {path}; a change here is lost."
    name = CLASSIC_FILE if app.classic else f"{module}.proto"
    return Exported(output_dir / name, proto_of(methods, removed, title), lock_file, app.lock or {}, lock)


def _lock_of(app: App) -> Lock:
    """The fields of every model, and those of models that the app had before."""
    lock = {model: merged(fields, {}) for model, fields in (app.lock or {}).items()}
    for function in app:
        if app.rpc_of(function) is not None:
            lock[function.name] = app.fields_of(function)
    return lock


def _shown(file: Path) -> Path:
    """A file as a user in the working folder writes it."""
    return file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file


def _text_of(file: Path) -> str | None:
    try:
        return file.read_text("utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _differences(exported: Exported) -> Iterator[str]:
    """What would change, one line for each field of the lock file and one for the `.proto` file."""
    if _text_of(exported.lock_file) != written(exported.lock):
        changes = [*_changes(exported.before, exported.lock)] or ["its form"]
        yield from (f"{_shown(exported.lock_file)} would change: {change}" for change in changes)
    text = _text_of(exported.proto)
    if text is None:
        yield f"{_shown(exported.proto)} is missing; `server proto` without --check writes it, to --output-dir"
    elif text != exported.text:
        yield f"{_shown(exported.proto)} would change: {_first_change(text, exported.text)}"


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
