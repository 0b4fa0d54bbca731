"""The lock file of an app, which keeps field numbers of typed requests stable when arguments change."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..errors import InvalidSettings


class LockedField(NamedTuple):
    """The field of an argument. The number of a removed argument is never reused."""

    number: int
    type: str
    removed: bool = False


Locked = dict[str, LockedField]
"""The fields of one model, by argument."""

Lock = dict[str, Locked]
"""The fields of all models, by model."""


class TypeChanged(ValueError):
    """An argument has a different type than its field in the lock file."""


def lock_path(path: str, source: str) -> Path:
    """Return the path of an app's lock file, `module.app.proto-lock.json` next to the module.

    `path` is the import path of the app (`module:name`). `source` is a file in the folder from which the
    module is imported.
    """
    module, _, name = path.partition(":")
    *packages, last = module.split(".")
    return Path(source).parent.joinpath(*packages, f"{last}.{name}.proto-lock.json")


def read_lock(file: Path) -> Lock:
    """Return the fields in a lock file, or none if it is missing. Raises InvalidSettings if it is invalid."""
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{file.name}: {getattr(error, 'strerror', None) or error}") from None
    try:
        lock = {
            str(model): {str(name): _field(**written) for name, written in fields.items()}
            for model, fields in json.loads(text)["requests"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidSettings(f"{file.name}: not a lock file of `server proto`: {error!r}") from None
    for model, fields in lock.items():
        if len({field.number for field in fields.values()}) < len(fields):
            raise InvalidSettings(f"{file.name}: two arguments of {model} share a field number")
    return lock


def _field(number: int, type: str, removed: bool = False) -> LockedField:
    if not isinstance(number, int) or number < 1 or not isinstance(type, str):
        raise ValueError(f"field {number!r} of type {type!r}")
    return LockedField(number, type, bool(removed))


def format_lock(lock: Lock) -> str:
    """Return the contents of a lock file, sorted, with one line per field."""
    models = []
    for model, fields in sorted(lock.items()):
        lines = [
            f"      {json.dumps(name)}: {json.dumps(_to_json(field))}"
            for name, field in sorted(fields.items(), key=lambda item: item[1].number)
        ]
        inside = "{\n" + ",\n".join(lines) + "\n    }" if lines else "{}"
        models.append(f"    {json.dumps(model)}: {inside}")
    inside = "{\n" + ",\n".join(models) + "\n  }" if models else "{}"
    return '{\n  "requests": ' + inside + "\n}\n"


def _to_json(field: LockedField) -> dict[str, object]:
    shown: dict[str, object] = {"number": field.number, "type": field.type}
    return {**shown, "removed": True} if field.removed else shown


def merge_fields(known: Mapping[str, LockedField], arguments: Mapping[str, str]) -> Locked:
    """Return the fields, updated with the types of `arguments`. New arguments receive the next numbers.

    Raises TypeChanged naming the argument and both types.
    """
    fields = {name: field._replace(removed=name not in arguments) for name, field in known.items()}
    following = max((field.number for field in fields.values()), default=0) + 1
    for name, kind in arguments.items():
        if name not in fields:
            fields[name] = LockedField(following, kind)
            following += 1
        elif fields[name].type != kind:
            number, old, _ = fields[name]
            raise TypeChanged(
                f'argument "{name}" was {old} and is now {kind}, and field {number} of the typed request '
                "cannot change its type; give the argument another name"
            )
    return fields
