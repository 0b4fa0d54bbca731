"""Writes the types of all settings, and the names that no server may ignore, from the plug-ins of this distribution."""

from collections import defaultdict
from pathlib import Path

from inferstream.extensions.discovery import extensions, plugins
from inferstream.extensions.entries import MODEL_SETTINGS, SETTINGS
from inferstream.settings import ModelSettings, Settings
from inferstream.settings.sections import RESERVED, Composed, Section

FOLDER = Path(__file__).parent.parent / "inferstream" / "settings"
TYPES = FOLDER / "composed.pyi"
NAMES = FOLDER / RESERVED
HEAD = """# Written by `make settings` from the plug-ins of this distribution.
from typing import Any
"""
CLASSES: dict[str, type[Composed]] = {SETTINGS: Settings, MODEL_SETTINGS: ModelSettings}


def render_types() -> str:
    """The classes with their bases. Sections of other packages have no place here."""
    names, classes = defaultdict[str, set[str]](set), []
    for group, composed in CLASSES.items():
        (core,) = (base for base in composed.__bases__ if not issubclass(base, Section))
        bases = [*reversed(_sections(group)), core]
        for base in bases:
            names[base.__module__].add(base.__name__)
        named = "".join(f"    {base.__name__},\n" for base in bases)
        # A constructor of its own takes values that validators turn into those of the fields.
        own = "\n    def __init__(self, **values: Any) -> None: ..." if "__init__" in vars(core) else " ..."
        classes.append(f"class {composed.__name__}(\n{named}):{own}\n")
    imports = (f"from {module} import {', '.join(sorted(names[module]))}" for module in sorted(names))
    return "\n".join([HEAD, *imports, "", *classes])


def render_names() -> str:
    names = {
        f"{group} {field.alias or name}"
        for group in CLASSES
        for section in _sections(group)
        for name, field in section.model_fields.items()
    }
    ours = {plugin.extension for group in CLASSES for plugin in plugins(group).values() if plugin.ours}
    names |= {f"{SETTINGS} {name.lower()}" for each in ours for name in extensions()[each].variables}
    return "".join(f"{name}\n" for name in sorted(names))


def _sections(group: str) -> list[type[Section]]:
    return [plugin.load() for plugin in plugins(group).values() if plugin.ours]


if __name__ == "__main__":
    TYPES.write_text(render_types())
    NAMES.write_text(render_names())
