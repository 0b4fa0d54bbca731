"""Lazy imports for the extension API: each name is imported from its defining module on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ()


def export(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Build the module `__getattr__` that exports `names`.

    The keys of `names` are the defining modules. Each value lists names separated by spaces, as `name` or
    `name=alias`.
    """
    package = __name__.partition(".")[0]
    homes = {
        new or old: (f"{package}.{home}", old)
        for home, listed in names.items()
        for old, _, new in (each.partition("=") for each in listed.split())
    }

    def find(name: str) -> Any:
        try:
            home, old = homes[name]
        except KeyError:
            raise AttributeError(f"module {module!r} has no attribute {name!r}") from None
        value = getattr(import_module(home), old)
        setattr(import_module(module), name, value)
        return value

    return find
