"""`server keys`: makes, lists, revokes and replaces the keys of a file, and shows what they have used."""

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ..errors import InferstreamError, InvalidSettings
from ..keys.document import Document, KeyEntry, expiry
from ..keys.file import edit, read_keys
from ..keys.principal import NO_LIMITS, SCOPES, KeyLimits
from ..keys.secret import digest_of, new_id, new_key
from ..keys.usage import read_usage

app = typer.Typer(help="Make, list, revoke and replace keys.", no_args_is_help=True)

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

File = Annotated[
    Path | None,
    typer.Option(
        "--file", help="File of keys; by default `keys_file` of settings.json here, else keys.json."
    ),
]


@app.command()
def add(
    principal: Annotated[str, typer.Option("--principal", help="Who calls with the key.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help=f"{', '.join(SCOPES)}; repeatable.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Models as a pattern; repeatable.")
    ] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="30d, or a time in UTC.")] = None,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", help="Such as requests_per_second=10; repeatable.")
    ] = None,
    file: File = None,
) -> None:
    """Make a key and print it, once. By default it may infer and stream with all models."""
    scopes = scope or ["infer", "stream"]
    models = model or ["*"]
    try:
        entry = partial(
            KeyEntry,
            principal=principal,
            scopes=scopes,
            models=models,
            expires=None if expires is None else _moment(expires),
            limits=_limits(limit or []),
        )
        _run(lambda: _add(_path(file), entry))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command("list")
def list_keys(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, file: File = None
) -> None:
    """List the keys of the file, without their hashes."""
    _run(lambda: _list(_path(file), as_json))


@app.command()
def revoke(id: Annotated[str, typer.Argument(help="Id of the key.")], file: File = None) -> None:
    """Remove a key. Servers refuse it within seconds."""

    def change(document: Document) -> None:
        document.keys.remove(_entry(document, id))

    _run(lambda: edit(_path(file), change))


@app.command()
def rotate(
    id: Annotated[str, typer.Argument(help="Id of the key.")],
    overlap: Annotated[str, typer.Option("--overlap", help="For how long the old key still works.")] = "1h",
    file: File = None,
) -> None:
    """Make a key with the rights of another one and print it, once. The other one expires soon."""
    try:
        end = _moment(overlap)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None

    def change(document: Document) -> None:
        old = _entry(document, id)
        fresh = new_id()
        key = keys[0] = new_key(fresh)
        document.keys.append(msgspec.structs.replace(old, id=fresh, sha256=digest_of(key).hex()))
        if old.expires is None or expiry(end) < expiry(old.expires):
            old.expires = end

    keys = [""]
    _run(lambda: edit(_path(file), change))
    _show(keys[0])


@app.command()
def usage(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="By default `usage_file` of settings.json here.")
    ] = None,
) -> None:
    """Show what keys have used by day, as the server last saved it."""
    _run(lambda: _usage(file, as_json))


def _add(path: Path, entry: Callable[..., KeyEntry]) -> None:
    id = new_id()
    key = new_key(id)
    made = entry(id=id, sha256=digest_of(key).hex())
    edit(path, lambda document: document.keys.append(made))
    _show(key)


def _list(path: Path, as_json: bool) -> None:
    now = datetime.now(UTC).timestamp()
    rows = []
    for entry in read_keys(path).keys:
        row: dict[str, Any] = {"id": entry.id, "principal": entry.principal, "scopes": entry.scopes}
        row |= {"models": entry.models, "expires": entry.expires}
        row["expired"] = entry.expires is not None and expiry(entry.expires) <= now
        rows.append(row | {"limits": msgspec.to_builtins(entry.limits)})
    if as_json:
        return typer.echo(json.dumps({"schema": "inferstream.keys/1", "keys": rows}, indent=2))
    for row in rows:
        limits = " ".join(f"{name}={value}" for name, value in row["limits"].items())
        ends = f"{'expired' if row['expired'] else 'expires'} {row['expires']}" if row["expires"] else ""
        parts = (row["id"], row["principal"], ",".join(row["scopes"]), ",".join(row["models"]), ends, limits)
        typer.echo("  ".join(filter(None, parts)))
    return None


def _usage(file: Path | None, as_json: bool) -> None:
    path = file or _setting("usage_file")
    if path is None:
        raise InvalidSettings("no usage file: give --file, or set usage_file in settings.json")
    if not path.exists():
        raise InvalidSettings(f"{path}: there is no such file")
    rows = [
        {"day": day, "key": key, **msgspec.to_builtins(used)}
        for day, keys in sorted(read_usage(path).items())
        for key, used in keys.items()
    ]
    if as_json:
        return typer.echo(json.dumps({"schema": "inferstream.keys-usage/1", "usage": rows}, indent=2))
    for row in rows:
        typer.echo(
            "  ".join(
                f"{name}={value}" if name not in ("day", "key") else value for name, value in row.items()
            )
        )
    return None


def _entry(document: Document, id: str) -> KeyEntry:
    for entry in document.keys:
        if entry.id == id:
            return entry
    raise InvalidSettings(f'there is no key with the id "{id}"')


def _path(file: Path | None) -> Path:
    return file or _setting("keys_file") or Path("keys.json")


def _setting(name: str) -> Path | None:
    from ..settings import load_settings  # late: pydantic is slow to import

    value = getattr(load_settings(Path.cwd()), name)
    return None if value is None else Path(value)


def _moment(text: str) -> str:
    """A time in UTC from a time, or from a duration after now. Raises ValueError."""
    if match := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        time = datetime.now(UTC) + timedelta(**{_UNITS[match[2]]: int(match[1])})
        return time.strftime("%Y-%m-%dT%H:%M:%SZ")
    expiry(text)
    return text


def _limits(given: list[str]) -> KeyLimits:
    """Limits from texts such as `in_flight=4`. Raises ValueError."""
    if not given:
        return NO_LIMITS
    values = {}
    for text in given:
        name, _, value = text.partition("=")
        values[name] = json.loads(value)
    return msgspec.convert(values, KeyLimits)


def _show(key: str) -> None:
    typer.echo(key)
    if sys.stdout.isatty():
        typer.echo("The file has only its hash: the key is not shown again.", err=True)


def _run(command: Callable[[], None]) -> None:
    try:
        command()
    except InferstreamError as error:
        typer.echo(f"error: {error.message}", err=True)
        raise typer.Exit(1) from None
