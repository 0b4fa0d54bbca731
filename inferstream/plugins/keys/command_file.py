"""The implementation of `server keys`: add, list, revoke and rotate keys, and show their usage.

Each function raises InvalidSettings if a file is invalid or missing, and ValueError if an option is invalid.
"""

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import typer

from inferstream.errors import InvalidSettings
from inferstream.ext.settings import load_settings

from .document import Document, KeyEntry, parse_expiry
from .file import edit, read_keys
from .principal import NO_LIMITS, KeyLimits
from .secret import hash_key, new_id, new_key
from .usage import read_usage

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add(
    file: Path | None,
    principal: str,
    scopes: list[str],
    models: list[str],
    expires: str | None,
    limits: list[str],
) -> None:
    """Add a key to the file and print it."""
    id = new_id()
    key = new_key(id)
    entry = KeyEntry(
        id=id,
        principal=principal,
        sha256=hash_key(key).hex(),
        scopes=scopes,
        models=models,
        expires=None if expires is None else _parse_future_time(expires),
        limits=_parse_limits(limits),
    )
    edit(_path(file), lambda document: document.keys.append(entry))
    _show(key)
    if file is None and _setting("keys_file") is None:
        hint = f'The server requires keys if its settings.json has "keys_file": "{_path(None)}".'
        typer.echo(f"{hint} That file is in the folder that you serve, or next to your app.", err=True)


def revoke(file: Path | None, id: str) -> None:
    """Remove a key from the file."""
    edit(_path(file), lambda document: document.keys.remove(_entry(document, id)))


def rotate(file: Path | None, id: str, overlap: str) -> None:
    """Add a key with the same permissions and print it. The old key expires after `overlap` at the latest."""
    end = _parse_time(overlap)
    fresh = new_id()
    key = new_key(fresh)

    def change(document: Document) -> None:
        old = _entry(document, id)
        if old.expires is not None and _is_past(old.expires):
            raise InvalidSettings(f'the key "{id}" expired at {old.expires}, and so would a new one')
        document.keys.append(msgspec.structs.replace(old, id=fresh, sha256=hash_key(key).hex()))
        if old.expires is None or parse_expiry(end) < parse_expiry(old.expires):
            old.expires = end

    edit(_path(file), change)
    _show(key)


def show_keys(file: Path | None, as_json: bool) -> None:
    """Print the keys without their hashes."""
    rows = []
    for entry in read_keys(_path(file)).keys:
        row: dict[str, Any] = msgspec.to_builtins(entry)
        del row["sha256"]
        rows.append(row | {"expired": entry.expires is not None and _is_past(entry.expires)})
    if as_json:
        typer.echo(json.dumps({"schema": "inferstream.keys/1", "keys": rows}, indent=2))
        return
    for row in rows:
        limits = " ".join(f"{name}={value}" for name, value in row["limits"].items())
        ends = f"{'expired' if row['expired'] else 'expires'} {row['expires']}" if row["expires"] else ""
        parts = (row["id"], row["principal"], ",".join(row["scopes"]), ",".join(row["models"]), ends, limits)
        typer.echo("  ".join(filter(None, parts)))


def show_usage(file: Path | None, as_json: bool) -> None:
    """Print the daily usage of each key."""
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


def _parse_time(text: str) -> str:
    """Parse a UTC time, or a duration from now, and return the UTC time."""
    if match := re.fullmatch(r"(\d{1,6})([smhdw])", text):
        try:
            time = datetime.now(UTC) + timedelta(**{_UNITS[match[2]]: int(match[1])})
        except OverflowError:
            raise ValueError(f"{text} is too long") from None
        return time.strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        parse_expiry(text)
    except ValueError as error:
        raise ValueError(f"{error}; or a duration, such as 30d") from None
    return text


def _parse_future_time(text: str) -> str:
    """Parse a time or duration, and raise ValueError if the time has passed."""
    moment = _parse_time(text)
    if _is_past(moment):
        raise ValueError(f'"expires" is {moment}, which is over: the key would be refused')
    return moment


def _is_past(moment: str) -> bool:
    return parse_expiry(moment) <= datetime.now(UTC).timestamp()


def _parse_limits(given: list[str]) -> KeyLimits:
    """Parse limits such as `in_flight=4`."""
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
