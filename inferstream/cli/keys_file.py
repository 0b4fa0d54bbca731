"""The files behind `server keys`: keys are made, listed, revoked and replaced, and their use is shown.

Each function raises InvalidSettings for a file that is broken or absent, and ValueError for a wrong option.
"""

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import typer

from inferstream.ext.settings import load_settings

from ..errors import InvalidSettings
from ..keys.document import Document, KeyEntry, expiry
from ..keys.file import edit, read_keys
from ..keys.principal import NO_LIMITS, KeyLimits
from ..keys.secret import digest_of, new_id, new_key
from ..keys.usage import read_usage

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add(
    file: Path | None,
    principal: str,
    scopes: list[str],
    models: list[str],
    expires: str | None,
    limits: list[str],
) -> None:
    """Add a key and print it."""
    id = new_id()
    key = new_key(id)
    entry = KeyEntry(
        id=id,
        principal=principal,
        sha256=digest_of(key).hex(),
        scopes=scopes,
        models=models,
        expires=None if expires is None else _future(expires),
        limits=_limits(limits),
    )
    edit(_path(file), lambda document: document.keys.append(entry))
    _show(key)
    if file is None and _setting("keys_file") is None:
        typer.echo(f'The server asks for keys once settings.json has "keys_file": "{_path(None)}".', err=True)


def revoke(file: Path | None, id: str) -> None:
    """Remove a key."""
    edit(_path(file), lambda document: document.keys.remove(_entry(document, id)))


def rotate(file: Path | None, id: str, overlap: str) -> None:
    """Add a key with the rights of another one, which expires after `overlap` at the latest, and print it."""
    end = _moment(overlap)
    fresh = new_id()
    key = new_key(fresh)

    def change(document: Document) -> None:
        old = _entry(document, id)
        if old.expires is not None and _over(old.expires):
            raise InvalidSettings(f'the key "{id}" expired at {old.expires}, and so would a new one')
        document.keys.append(msgspec.structs.replace(old, id=fresh, sha256=digest_of(key).hex()))
        if old.expires is None or expiry(end) < expiry(old.expires):
            old.expires = end

    edit(_path(file), change)
    _show(key)


def show_keys(file: Path | None, as_json: bool) -> None:
    """Print the keys without their hashes."""
    rows = []
    for entry in read_keys(_path(file)).keys:
        row: dict[str, Any] = msgspec.to_builtins(entry)
        del row["sha256"]
        rows.append(row | {"expired": entry.expires is not None and _over(entry.expires)})
    if as_json:
        typer.echo(json.dumps({"schema": "inferstream.keys/1", "keys": rows}, indent=2))
        return
    for row in rows:
        limits = " ".join(f"{name}={value}" for name, value in row["limits"].items())
        ends = f"{'expired' if row['expired'] else 'expires'} {row['expires']}" if row["expires"] else ""
        parts = (row["id"], row["principal"], ",".join(row["scopes"]), ",".join(row["models"]), ends, limits)
        typer.echo("  ".join(filter(None, parts)))


def show_usage(file: Path | None, as_json: bool) -> None:
    """Print what keys have used by day."""
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
        typer.echo(json.dumps({"schema": "inferstream.keys-usage/1", "usage": rows}, indent=2))
        return
    for row in rows:
        day, key, principal = (row.pop(name) for name in ("day", "key", "principal"))
        counts = "  ".join(f"{count} {name}" for name, count in row.items())
        typer.echo(f"{day}  {key}  {principal}  {counts}")


def _entry(document: Document, id: str) -> KeyEntry:
    for entry in document.keys:
        if entry.id == id:
            return entry
    raise InvalidSettings(f'there is no key with the id "{id}"')


def _path(file: Path | None) -> Path:
    return file or _setting("keys_file") or Path("keys.json")


def _setting(name: str) -> Path | None:
    value = getattr(load_settings(Path.cwd()), name)
    return None if value is None else Path(value)


def _moment(text: str) -> str:
    """A time in UTC from a time, or from a duration after now."""
    if match := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        try:
            time = datetime.now(UTC) + timedelta(**{_UNITS[match[2]]: int(match[1])})
        except OverflowError:
            raise ValueError(f"{text} is too long") from None
        return time.strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        expiry(text)
    except ValueError as error:
        raise ValueError(f"{error}; or a duration, such as 30d") from None
    return text


def _future(text: str) -> str:
    """A moment after now."""
    moment = _moment(text)
    if _over(moment):
        raise ValueError(f'"expires" is {moment}, which is over: the key would be refused')
    return moment


def _over(moment: str) -> bool:
    return expiry(moment) <= datetime.now(UTC).timestamp()


def _limits(given: list[str]) -> KeyLimits:
    """Limits from texts such as `in_flight=4`."""
    values = {}
    kinds = get_type_hints(KeyLimits)
    for text in given:
        name, _, value = text.partition("=")
        if name not in KeyLimits.__struct_fields__:
            raise ValueError(f'"{name}" is no limit; there are {", ".join(KeyLimits.__struct_fields__)}')
        try:
            values[name] = json.loads(value)
        except ValueError:
            raise ValueError(f'"{text}" is no limit with a number, such as in_flight=4') from None
        try:
            msgspec.convert(values[name], kinds[name])
        except msgspec.ValidationError:
            kind = "a number" if name == "requests_per_second" else "a whole number"
            raise ValueError(f'"{text}": the limit {name} is {kind}, 0 or more') from None
    return msgspec.convert(values, KeyLimits) if given else NO_LIMITS


def _show(key: str) -> None:
    typer.echo(key)
    if sys.stdout.isatty():
        typer.echo("The file has only its hash: the key is not shown again.", err=True)
