"""The extension API, version 1: what a plug-in may import beside the public names of the package."""

from ._extension import API, Artefact, Extension, Flag, Position

__all__ = ["API", "Artefact", "Extension", "Flag", "Position"]
