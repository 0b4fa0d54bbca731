"""Checks values that packages name as their extension."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .entries import FIELDS, NAMING_MODULES, SINGLE

if TYPE_CHECKING:
    from ..ext import Extension


def explain_rejection(value: object) -> str | None:
    """Return the reason why a value cannot be used as an extension of this server, or None."""
    from ..ext import API, Extension

    if not isinstance(value, Extension):
        return f"it is a {type(value).__name__}, not an Extension"
    if value.api != API:
        return f"it is for version {value.api} of the extension API, and this server has version {API}"
    return _find_fault(value)


def _find_fault(extension: "Extension") -> str | None:
    """Return the error in the type of a field or in the format of an entry, or None."""
    from ..ext import Position

    if isinstance(extension.requires, str):
        return f"requires: expected a list of names, got {extension.requires!r}"
    for field in SINGLE.values():
        value = getattr(extension, field)
        if value and not _names_object(value):
            return f'{field}: expected "module:object", got {value!r}'
    for field in (field for fields in FIELDS.values() for field in fields):
        entries = getattr(extension, field)
        if not isinstance(entries, Mapping):
            return f'{field}: expected {{"name": "module:object"}}, got {entries!r}'
        for name, entry in entries.items():
            value = entry.value if isinstance(entry, Position) else entry
            if not (_names_object(value) or (isinstance(value, str) and field in NAMING_MODULES)):
                return f'{field} "{name}": expected "module:object", got {value!r}'
    return _find_fault_of_artefacts(extension.artefacts)


def _find_fault_of_artefacts(artefacts: object) -> str | None:
    from ..ext import Artefact

    if not isinstance(artefacts, Sequence) or isinstance(artefacts, str):
        return f"artefacts: expected a list of Artefact, got {artefacts!r}"
    for artefact in artefacts:
        if not isinstance(artefact, Artefact):
            return f"artefacts: expected an Artefact, got {artefact!r}"
        for field in ("others", "names", "suffixes", "data"):
            if isinstance(value := getattr(artefact, field), str):
                return f"artefacts, {field}: expected a list of strings, got {value!r}"
    return None


def _names_object(value: object) -> bool:
    module, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    return bool(module and name)
