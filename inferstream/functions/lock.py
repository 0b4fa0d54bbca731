"""The lock file of an app: field numbers of its typed requests, which stay as they are when arguments change."""

import json
from pathlib import Path

from ..errors import InvalidSettings

Numbers = dict[str, dict[str, int]]


def lock_path(path: str, source: str) -> Path:
    """The lock file of the app `path` (`module:name`), beside its module: `module.app.proto-lock.json`."""
    module, _, name = path.partition(":")
    return Path(source).parent / f"{module.rpartition('.')[2]}.{name}.proto-lock.json"


def read_lock(path: str, source: str) -> Numbers:
    """Field numbers by model and argument; none without a file. Raises InvalidSettings for a file that is wrong."""
    file = lock_path(path, source)
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidSettings(f"{file}: {error.strerror}") from None
    try:
        messages = json.loads(text)["requests"]
        numbers = {
            str(model): {str(name): int(number) for name, number in fields.items()}
            for model, fields in messages.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidSettings(f"{file}: not a lock file of `server proto`: {error!r}") from None
    for model, fields in numbers.items():
        if len({*fields.values()}) < len(fields) or min(fields.values(), default=1) < 1:
            raise InvalidSettings(f"{file}: two arguments of {model} share a field number")
    return numbers
