"""The extension API, version 1. Plug-ins may import these names in addition to the public ones."""

from ._extension import API, Artefact, Extension, Flag, Position

__all__ = ["API", "Artefact", "Extension", "Flag", "Position"]
